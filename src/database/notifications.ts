import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { BackgroundJob } from '../background-job.ts';
import { computeBackoffMs } from '../backoff.ts';
import type { Clock } from '../clock.ts';
import { waitAtMost } from '../wait-at-most.ts';
import { RECONNECT_BACKOFF } from './limits.ts';
import { assertWritable, createClientConfig } from './postgres.ts';

interface NotificationListener {
  /** The handlers, by channel. */
  channels: Readonly<Record<string, (payload: string) => void>>;
  /** Called if notifications since that time may be lost. If it rejects, it is called again after a pause. */
  onMissedNotifications: (sinceMs: number) => Promise<void> | undefined;
  /** Called if a handler throws. Later notifications are still delivered. */
  onError: (error: unknown) => void;
  clock: Clock;
}

/** Starts to listen. Notifications that are sent after the promise resolves are delivered. */
export type Listen = (listener: NotificationListener) => Promise<NotificationSubscription>;

export interface NotificationSubscription {
  /** False while a broken connection is being reopened, or the server does not respond. */
  readonly isConnected: boolean;
  close(): Promise<void>;
}

/** Creates notifications within this process. Others send none, so their writes are reported as missed ones. */
export function createSqliteNotifications(readDataVersion: () => Promise<number>) {
  const listeners = new Set<NotificationListener>();

  const emit = (channel: string, payload: string) => {
    for (const listener of listeners) {
      dispatchNotification(listener, channel, payload);
    }
  };

  const listen: Listen = async (listener) => {
    listeners.add(listener);
    let handledAtMs = listener.clock();
    let handledVersion = await readDataVersion();
    const job = new BackgroundJob({
      work: async () => {
        const nowMs = listener.clock();
        const version = await readDataVersion();
        if (version !== handledVersion) {
          // The clock may have been set back.
          await listener.onMissedNotifications(Math.min(handledAtMs, nowMs));
        }
        handledAtMs = nowMs;
        handledVersion = version;
      },
      intervalMs: 1_000,
      // The database is busy or its disk fails. The next check will report the change.
      onError: () => undefined,
    });
    job.start();
    return {
      isConnected: true,
      close: async () => {
        listeners.delete(listener);
        await job.stop();
      },
    };
  };

  return { emit, listen };
}

function dispatchNotification(listener: NotificationListener, channel: string, payload: string) {
  try {
    listener.channels[channel]?.(payload);
  } catch (error) {
    listener.onError(error);
  }
}

/**
 * Listens on a dedicated connection, because the pool closes its connections after some minutes. Reopens the
 * connection if it breaks or its server becomes read-only, because a standby sends no notifications.
 */
export async function listenOnPostgres(
  url: string,
  listener: NotificationListener,
  hooks: { onConnectionError: (error: Error) => void; onDisconnect: () => void },
): Promise<NotificationSubscription> {
  const closeController = new AbortController();
  const { signal } = closeController;
  let lastAliveAtMs = 0;
  let isConnected = false;
  let client = await connect();
  const listening = keepListening();
  return {
    get isConnected() {
      return isConnected;
    },
    close: async () => {
      closeController.abort();
      const ended = client.end().then(() => listening);
      // A server that does not respond must not delay the shutdown.
      await waitAtMost(1_000, ended);
    },
  };

  function markAlive(): void {
    lastAliveAtMs = listener.clock();
    isConnected = true;
  }

  async function connect(): Promise<pg.Client> {
    const newClient = new pg.Client({
      ...createClientConfig(url),
      application_name: 'nutpost listening',
      // A busy server may take seconds. If the server vanishes, notifications are late by this time.
      query_timeout: 5_000,
    });
    // An unhandled 'error' event ends the process.
    newClient.on('error', () => undefined);
    newClient.on('notification', ({ channel, payload = '' }) => {
      markAlive();
      dispatchNotification(listener, channel, payload);
    });
    const channels = Object.keys(listener.channels).map((name) => pg.escapeIdentifier(name));
    try {
      await newClient.connect();
      await assertWritable(newClient);
      await newClient.query(channels.map((channel) => `listen ${channel}`).join('; '));
    } catch (error) {
      // Not awaited, because a server that has vanished does not confirm the end.
      newClient.end().catch(() => undefined);
      throw error;
    }
    markAlive();
    return newClient;
  }

  async function keepListening(): Promise<void> {
    while (!signal.aborted) {
      const error = await waitForDisconnect();
      isConnected = false;
      client.end().catch(() => undefined);
      if (!signal.aborted) {
        hooks.onDisconnect();
        if (error !== null) {
          hooks.onConnectionError(error);
        }
        await reconnect(lastAliveAtMs);
      }
    }
    // `close` ended the client of that time, but `reconnect` may have opened another one since.
    await client.end();
  }

  /** Returns the error, or null if the connection was closed. Its heartbeats detect a server that has vanished. */
  async function waitForDisconnect(): Promise<Error | null> {
    const disconnected = Promise.withResolvers<Error | null>();
    client.once('error', disconnected.resolve);
    client.once('end', () => disconnected.resolve(null));
    let isHeartbeatPending = false;
    const heartbeat = setInterval(() => {
      if (isHeartbeatPending) {
        isConnected = false;
        return;
      }
      isHeartbeatPending = true;
      assertWritable(client).then(() => {
        isHeartbeatPending = false;
        markAlive();
      }, disconnected.resolve);
    }, 2_000);
    heartbeat.unref();
    const error = await disconnected.promise;
    clearInterval(heartbeat);
    return error;
  }

  async function reconnect(sinceMs: number): Promise<void> {
    for (let failures = 1; !signal.aborted; failures += 1) {
      try {
        client = await connect();
        // The clock may have been set back.
        await listener.onMissedNotifications(Math.min(sinceMs, listener.clock()));
        return;
      } catch (error) {
        hooks.onConnectionError(error as Error);
        isConnected = false;
        client.end().catch(() => undefined);
        const pauseMs = computeBackoffMs(failures, RECONNECT_BACKOFF);
        await delay(pauseMs, undefined, { signal }).catch(() => undefined);
      }
    }
  }
}
