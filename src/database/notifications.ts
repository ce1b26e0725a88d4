import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { computeBackoffMs } from '../backoff.ts';
import type { Clock } from '../clock.ts';
import { waitAtMost } from '../wait-at-most.ts';
import { RECONNECT_BACKOFF } from './limits.ts';
import { assertWritable, createClientConfig } from './postgres.ts';

interface NotificationListener {
  channels: Readonly<Record<string, (payload: string) => void>>;
  /** Called after a reconnect. `sinceMs`: when the connection last worked. If it rejects, the connection is reopened. */
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

/** Delivers the notifications of this process to itself, and reports writes of other processes as missed ones. */
export function createSqliteNotifications(readVersion: () => Promise<number>) {
  const listeners = new Set<NotificationListener>();

  const emit = (channel: string, payload: string) => {
    for (const listener of listeners) {
      dispatchNotification(listener, channel, payload);
    }
  };

  const listen: Listen = async (listener) => {
    listeners.add(listener);
    const readSnapshot = async () => ({ atMs: listener.clock(), version: await readVersion() });
    let lastSeen = await readSnapshot();
    let currentCheck: Promise<void> | null = null;
    const check = async () => {
      try {
        const current = await readSnapshot();
        if (current.version !== lastSeen.version) {
          await listener.onMissedNotifications(Math.min(lastSeen.atMs, current.atMs));
        }
        lastSeen = current;
      } catch {
        // The database is busy or its disk fails. The next check will report the change.
      }
      currentCheck = null;
    };
    const timer = setInterval(() => {
      currentCheck ??= check();
    }, 1_000);
    return {
      isConnected: true,
      close: async () => {
        clearInterval(timer);
        listeners.delete(listener);
        await currentCheck;
      },
    };
  };

  return { emit, listen };
}

function dispatchNotification(
  { channels, onError }: NotificationListener,
  channel: string,
  payload: string,
): void {
  try {
    channels[channel]?.(payload);
  } catch (error) {
    onError(error);
  }
}

/**
 * Listens on a dedicated connection, because the pool closes its connections after some minutes. Reopens the
 * connection if it breaks or its server becomes read-only, because a standby sends no notifications.
 */
export async function listenOnPostgres(
  url: string,
  listener: NotificationListener,
  {
    onConnectionError,
    onDisconnect,
  }: { onConnectionError: (error: Error) => void; onDisconnect: () => void },
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
      // A server that does not respond must not delay the shutdown.
      await waitAtMost(
        1_000,
        client.end().then(() => listening),
      );
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
      // A busy server may take seconds. If it vanishes, updates from other processes are late by this time.
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
      // Not awaited, because a server that has vanished does not respond to it.
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
        onDisconnect();
        if (error !== null) {
          onConnectionError(error);
        }
        await reconnect(lastAliveAtMs);
      }
    }
    // `close` ends the client of that moment, but `reconnect` may have opened another one since.
    await client.end();
  }

  /** Sends queries, because a connection without notifications would not show that its server has vanished. */
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
        // If the clock was set back meanwhile, missed changes may have times before `sinceMs`.
        await listener.onMissedNotifications(Math.min(sinceMs, listener.clock()));
        return;
      } catch (error) {
        onConnectionError(error as Error);
        isConnected = false;
        client.end().catch(() => undefined);
        const pauseMs = computeBackoffMs(failures, RECONNECT_BACKOFF);
        await delay(pauseMs, undefined, { signal }).catch(() => undefined);
      }
    }
  }
}
