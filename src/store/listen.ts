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
  /**
   * Whether all is heard that was told until some seconds ago: a connection that has died without a word is
   * connected, as far as is known, until its questions are given up.
   */
  readonly isHearing: boolean;
  close(): Promise<void>;
}

const FIRST_RETRY_MS = 200;
const LONGEST_RETRY_MS = 10_000;

/** A server that has vanished does not answer a goodbye either, and must not hold up the end. */
const GOODBYE_MS = 1_000;

/** Between one question and the next; one that is not answered by then puts what is heard in doubt. */
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
  let isInDoubt = false;
  const signs: Signs = {
    good: () => {
      knownGoodAtMs = listener.clock();
    },
    doubt: (isDoubtful) => {
      isInDoubt = isDoubtful;
    },
  };
  let client = await connect(url, listener, signs);
  let isConnected = true;
  const stayConnected = keepConnected();
  return {
    get isConnected() {
      return isConnected;
    },
    get isHearing() {
      return isConnected && !isInDoubt;
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
      const error = await ending(client, signs, closing.signal);
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
        return await connect(url, listener, signs);
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

/** Told of how a connection is. */
interface Signs {
  /** It has answered, or said something by itself: it is not broken. */
  good: () => void;
  /** Whether the last question was answered too late, or is not yet: so may be what is told. */
  doubt: (isDoubtful: boolean) => void;
}

async function connect(url: string, listener: Listener, signs: Signs): Promise<pg.Client> {
  const client = new pg.Client({
    ...connectionSettings(url),
    application_name: 'nutpost listening',
    query_timeout: GIVE_UP_MS,
  });
  // An 'error' event without a listener would end the process; `ending` hears of it again.
  client.on('error', () => undefined);
  client.on('notification', ({ channel, payload = '' }) => {
    signs.good();
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
  signs.good();
  signs.doubt(false);
  return client;
}

/**
 * Resolves when a connection is over, with the error that ended it, if one did. A listener says
 * nothing for hours, so that it is asked now and then whether it is there, and listens.
 */
async function ending(
  client: pg.Client,
  signs: Signs,
  closing: AbortSignal,
): Promise<Error | null> {
  const over = Promise.withResolvers<Error | null>();
  client.once('error', over.resolve);
  client.once('end', () => over.resolve(null));
  let isAsked = false;
  let isLate = false;
  /** A pooler put another connection behind this one, which is well and hears nothing: what was told is lost. */
  let isDeaf = false;
  const heartbeat = setInterval(() => {
    if (isAsked) {
      isLate = true;
      signs.doubt(true);
      return;
    }
    isAsked = true;
    isLate = false;
    client.query('select 1 from pg_listening_channels()').then(({ rowCount }) => {
      isAsked = false;
      isDeaf ||= rowCount === 0;
      if (!isDeaf) {
        signs.good();
      }
      // What is told may still be as late as this answer.
      signs.doubt(isLate || isDeaf);
    }, over.resolve);
  }, HEARTBEAT_MS);
  const stopAsking = () => clearInterval(heartbeat);
  closing.addEventListener('abort', stopAsking);
  const error = await over.promise;
  closing.removeEventListener('abort', stopAsking);
  stopAsking();
  return error;
}
