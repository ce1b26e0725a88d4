import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import type { Clock } from '../domain/clock.ts';
import { connectionSettings } from './server.ts';

/** Hears what other connections and processes tell through the database (NOTIFY). */
export interface Listener {
  /** By the name of its channel, what is told each payload. */
  channels: Readonly<Record<string, (payload: string) => void>>;
  /**
   * Told that the connection broke and is back: what was told in between was not heard, and from
   * now on nothing is missed.
   *
   * @param sinceMs when the connection was last known to be good, by `clock`
   */
  onGap: (sinceMs: number) => void;
  clock: Clock;
}

/** Begins to listen; resolves once nothing told from now on is missed. */
export type Listen = (listener: Listener) => Promise<Listening>;

export interface Listening {
  /** Whether what is told now is heard, as far as is known: a broken connection is being opened again. */
  readonly isConnected: boolean;
  close(): Promise<void>;
}

const FIRST_RETRY_MS = 200;
const LONGEST_RETRY_MS = 10_000;

/** A server that has vanished does not answer a goodbye either, and must not hold up the end. */
const GOODBYE_MS = 1_000;

/** Between one question and the next. */
const HEARTBEAT_MS = 2_000;

/** After this, a question is given up, and the connection with it: a busy server may take some seconds. */
const GIVE_UP_MS = 20_000;

/**
 * Listens on a connection of its own, because pooled ones come and go. When it breaks, it is
 * opened again until {@link Listening.close}.
 */
export async function listenOnServer(
  url: string,
  listener: Listener,
  onConnectionError: (error: Error) => void,
): Promise<Listening> {
  const closing = new AbortController();
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
      await Promise.race([goodbye(), delay(GOODBYE_MS, undefined, { ref: false })]);
    },
  };

  async function goodbye(): Promise<void> {
    await client.end();
    await stayConnected;
  }

  async function keepConnected(): Promise<void> {
    while (!closing.signal.aborted) {
      const error = await ending(client, onGood, closing.signal);
      isConnected = false;
      if (error !== null) {
        if (!closing.signal.aborted) {
          onConnectionError(error);
        }
        client.end().catch(() => undefined);
      }
      const brokeAfterMs = knownGoodAtMs;
      const next = await reconnect();
      if (next !== null) {
        client = next;
        isConnected = true;
        tellOfGap(brokeAfterMs);
      }
    }
    // One that was being opened while the listening ended.
    await client.end();
  }

  async function reconnect(): Promise<pg.Client | null> {
    for (let waitMs = FIRST_RETRY_MS; !closing.signal.aborted; ) {
      try {
        return await connect(url, listener, onGood);
      } catch (error) {
        onConnectionError(error as Error);
        await delay(waitMs, undefined, { signal: closing.signal }).catch(() => undefined);
        waitMs = Math.min(waitMs * 2, LONGEST_RETRY_MS);
      }
    }
    return null;
  }

  function tellOfGap(sinceMs: number): void {
    if (!closing.signal.aborted) {
      // A clock that was set back meanwhile stamps what happened with earlier times.
      listener.onGap(Math.min(sinceMs, listener.clock()));
    }
  }
}

/** @param onGood called when the connection has answered or notified: it is not broken */
async function connect(url: string, listener: Listener, onGood: () => void): Promise<pg.Client> {
  const client = new pg.Client({
    ...connectionSettings(url),
    application_name: 'nutpost listening',
    query_timeout: GIVE_UP_MS,
  });
  // An 'error' event without a listener would end the process; `ending` hears of it again.
  client.on('error', () => undefined);
  client.on('notification', ({ channel, payload = '' }) => {
    onGood();
    listener.channels[channel]?.(payload);
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
 * Resolves when a connection is over, with the error that ended it, if one did. A listening connection may be silent for
 * hours, so it is queried now and then.
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
