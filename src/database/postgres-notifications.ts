import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { computeBackoffMs } from '../backoff.ts';
import type { Clock } from '../clock.ts';
import { waitAtMost } from '../wait-at-most.ts';
import {
  HEARTBEAT_INTERVAL_MS,
  HEARTBEAT_TIMEOUT_MS,
  LISTEN_CLOSE_TIMEOUT_MS,
  RECONNECT_BACKOFF,
} from './limits.ts';
import { assertWritable, createClientConfig } from './postgres.ts';

/** Receives the notifications (NOTIFY) of all connections and processes. */
export interface NotificationListener {
  /** One handler for each channel to listen on. */
  channels: Readonly<Record<string, (payload: string) => void>>;
  /**
   * Called after a broken connection was reopened. If the promise rejects, the connection is reopened again.
   *
   * @param sinceMs when the connection last worked, by `clock`; later notifications may have been lost
   */
  onMissedNotifications: (sinceMs: number) => Promise<void> | undefined;
  /** Called with the error if a handler throws. Later notifications are still delivered. */
  onError: (error: unknown) => void;
  clock: Clock;
}

export function dispatchNotification(
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

/** Starts to listen. Notifications that are sent after the promise resolves are delivered. */
export type Listen = (listener: NotificationListener) => Promise<NotificationSubscription>;

export interface NotificationSubscription {
  /** False while a broken connection is being reopened, or the server does not respond. */
  readonly isConnected: boolean;
  close(): Promise<void>;
}

interface ConnectionCallbacks {
  /** Receives the error of a broken connection, and of each failed attempt to reopen it. */
  onConnectionError: (error: Error) => void;
  /** Called when the connection breaks or its server becomes read-only. */
  onDisconnect: () => void;
}

/**
 * Listens on a dedicated connection, because the pool closes its connections after some minutes. Reopens the
 * connection if it breaks or its server becomes read-only, because a standby sends no notifications.
 */
export async function listenOnPostgres(
  url: string,
  listener: NotificationListener,
  { onConnectionError, onDisconnect }: ConnectionCallbacks,
): Promise<NotificationSubscription> {
  const closeController = new AbortController();
  const { signal } = closeController;
  let lastAliveAtMs = 0;
  let isResponding = true;
  const onAlive = () => {
    lastAliveAtMs = listener.clock();
    isResponding = true;
  };
  const onSilence = () => {
    isResponding = false;
  };
  let client = await connect(url, listener, onAlive);
  let isConnected = true;
  const reconnectLoop = keepConnected();
  return {
    get isConnected() {
      return isConnected && isResponding;
    },
    close: async () => {
      closeController.abort();
      const closing = client.end().then(() => reconnectLoop);
      await waitAtMost(LISTEN_CLOSE_TIMEOUT_MS, closing);
    },
  };

  async function keepConnected(): Promise<void> {
    while (!signal.aborted) {
      const error = await waitForDisconnect(client, { onAlive, onSilence }, signal);
      isConnected = false;
      if (!signal.aborted) {
        onDisconnect();
        if (error !== null) {
          onConnectionError(error);
        }
      }
      client.end().catch(() => undefined);
      await reconnect(lastAliveAtMs);
    }
    // `close` ends the client of that moment, but `reconnect` may have opened another one since.
    await client.end();
  }

  async function reconnect(sinceMs: number): Promise<void> {
    for (let failures = 1; !isConnected && !signal.aborted; failures += 1) {
      try {
        client = await connect(url, listener, onAlive);
        isConnected = true;
        // If the clock was set back meanwhile, missed changes may have times before `sinceMs`.
        await listener.onMissedNotifications(Math.min(sinceMs, listener.clock()));
      } catch (error) {
        onConnectionError(error as Error);
        if (isConnected) {
          isConnected = false;
          client.end().catch(() => undefined);
        }
        await delay(computeBackoffMs(failures, RECONNECT_BACKOFF), undefined, { signal }).catch(
          () => undefined,
        );
      }
    }
  }
}

/** @param onAlive called whenever the connection works: after connecting and for each notification */
async function connect(
  url: string,
  listener: NotificationListener,
  onAlive: () => void,
): Promise<pg.Client> {
  const client = new pg.Client({
    ...createClientConfig(url),
    application_name: 'nutpost listening',
    query_timeout: HEARTBEAT_TIMEOUT_MS,
  });
  // An unhandled 'error' event ends the process.
  client.on('error', () => undefined);
  client.on('notification', ({ channel, payload = '' }) => {
    onAlive();
    dispatchNotification(listener, channel, payload);
  });
  const channels = Object.keys(listener.channels).map((name) => pg.escapeIdentifier(name));
  try {
    await client.connect();
    await assertWritable(client);
    await client.query(channels.map((channel) => `listen ${channel}`).join('; '));
  } catch (error) {
    // Not awaited, because a server that has vanished does not respond to it.
    client.end().catch(() => undefined);
    throw error;
  }
  onAlive();
  return client;
}

/**
 * Waits until a connection ends. Returns its error, or null if it ended without one. Sends heartbeat queries, because
 * a connection without notifications would not show that the server has vanished.
 *
 * @param onSilence called if a heartbeat gets no response within {@link HEARTBEAT_INTERVAL_MS}
 */
async function waitForDisconnect(
  client: pg.Client,
  { onAlive, onSilence }: { onAlive: () => void; onSilence: () => void },
  closeSignal: AbortSignal,
): Promise<Error | null> {
  const disconnected = Promise.withResolvers<Error | null>();
  client.once('error', disconnected.resolve);
  client.once('end', () => disconnected.resolve(null));
  let isHeartbeatPending = false;
  const heartbeat = setInterval(() => {
    if (isHeartbeatPending) {
      onSilence();
      return;
    }
    isHeartbeatPending = true;
    assertWritable(client).then(() => {
      isHeartbeatPending = false;
      onAlive();
    }, disconnected.resolve);
  }, HEARTBEAT_INTERVAL_MS);
  const stopHeartbeat = () => clearInterval(heartbeat);
  closeSignal.addEventListener('abort', stopHeartbeat);
  const error = await disconnected.promise;
  closeSignal.removeEventListener('abort', stopHeartbeat);
  stopHeartbeat();
  return error;
}
