import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import type { Clock } from '../clock.ts';
import { connectionSettings } from './postgres.ts';

/** What receives the notifications of other connections and processes (NOTIFY). */
export interface Listener {
  /** By channel, what is called with each payload. */
  channels: Readonly<Record<string, (payload: string) => void>>;
  /**
   * Called when a broken connection is back. If it fails, the connection is opened again.
   *
   * @param sinceMs when the connection was last known to be good, by `clock`: later notifications may be lost
   */
  onGap: (sinceMs: number) => Promise<void> | undefined;
  /** Called with the error that a listener throws. The other notifications are still delivered. */
  onError: (error: unknown) => void;
  clock: Clock;
}

/** Calls what a listener has for a channel. */
export function deliver({ channels, onError }: Listener, channel: string, payload: string): void {
  try {
    channels[channel]?.(payload);
  } catch (error) {
    onError(error);
  }
}

/** Begins to listen; resolves once no later notification is missed. */
export type Listen = (listener: Listener) => Promise<Listening>;

export interface Listening {
  /** Whether the connection is open, as far as is known; a broken one is being opened again. */
  readonly isConnected: boolean;
  close(): Promise<void>;
}

const FIRST_RETRY_MS = 200;
const LONGEST_RETRY_MS = 10_000;

/** A server that has vanished must not delay the shutdown. */
const GOODBYE_MS = 1_000;

/** Between one heartbeat query and the next. */
const HEARTBEAT_MS = 2_000;

/** A connection whose query takes longer is given up; a busy server may take some seconds. */
const GIVE_UP_MS = 20_000;

/**
 * Listens on a connection of its own, because pooled ones come and go. A broken connection is opened again until
 * {@link Listening.close}.
 */
export async function listenOnServer(
  url: string,
  listener: Listener,
  onConnectionError: (error: Error) => void,
): Promise<Listening> {
  const closing = new AbortController();
  const { signal } = closing;
  let knownGoodAtMs = 0;
  const onGood = () => {
    knownGoodAtMs = listener.clock();
  };
  let client = await connect(url, listener, onGood);
  let isConnected = true;
  const stayConnected = keepConnected();
  return {
    get isConnected() {
      return isConnected;
    },
    close: async () => {
      closing.abort();
      const goodbye = client.end().then(() => stayConnected);
      await Promise.race([goodbye, delay(GOODBYE_MS, undefined, { ref: false })]);
    },
  };

  async function keepConnected(): Promise<void> {
    while (!signal.aborted) {
      const error = await ending(client, onGood, signal);
      isConnected = false;
      if (error !== null && !signal.aborted) {
        onConnectionError(error);
      }
      client.end().catch(() => undefined);
      await reconnect(knownGoodAtMs);
    }
    // One that was being opened when `close` was called.
    await client.end();
  }

  async function reconnect(sinceMs: number): Promise<void> {
    for (let waitMs = FIRST_RETRY_MS; !isConnected && !signal.aborted; ) {
      try {
        client = await connect(url, listener, onGood);
        isConnected = true;
        // If the clock was set back meanwhile, changes have earlier times.
        await listener.onGap(Math.min(sinceMs, listener.clock()));
      } catch (error) {
        isConnected = false;
        onConnectionError(error as Error);
        client.end().catch(() => undefined);
        await delay(waitMs, undefined, { signal }).catch(() => undefined);
        waitMs = Math.min(waitMs * 2, LONGEST_RETRY_MS);
      }
    }
  }
}

/** @param onGood called with each response and notification: the connection is not broken */
async function connect(url: string, listener: Listener, onGood: () => void): Promise<pg.Client> {
  const client = new pg.Client({
    ...connectionSettings(url),
    application_name: 'nutpost listening',
    query_timeout: GIVE_UP_MS,
  });
  // An 'error' event without a listener would end the process.
  client.on('error', () => undefined);
  client.on('notification', ({ channel, payload = '' }) => {
    onGood();
    deliver(listener, channel, payload);
  });
  const channels = Object.keys(listener.channels).map((name) => pg.escapeIdentifier(name));
  try {
    await client.connect();
    await client.query(channels.map((channel) => `listen ${channel}`).join('; '));
  } catch (error) {
    await client.end().catch(() => undefined);
    throw error;
  }
  onGood();
  return client;
}

/**
 * Resolves when a connection has ended, with its error or null. A listening connection may be silent for hours, so a
 * heartbeat query finds out whether it is broken.
 */
async function ending(
  client: pg.Client,
  onGood: () => void,
  closing: AbortSignal,
): Promise<Error | null> {
  const over = Promise.withResolvers<Error | null>();
  client.once('error', over.resolve);
  client.once('end', () => over.resolve(null));
  let isAsked = false;
  const heartbeat = setInterval(() => {
    if (isAsked) {
      return;
    }
    isAsked = true;
    client.query('select 1').then(() => {
      isAsked = false;
      onGood();
    }, over.resolve);
  }, HEARTBEAT_MS);
  const stopAsking = () => clearInterval(heartbeat);
  closing.addEventListener('abort', stopAsking);
  const error = await over.promise;
  closing.removeEventListener('abort', stopAsking);
  stopAsking();
  return error;
}
