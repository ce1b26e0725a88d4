import type { Clock } from '../domain/clock.ts';
import { RecentlyUsed } from '../domain/recently-used.ts';
import { newerList, RELAY_LIST_KIND, type RelayList, readRelayList } from '../domain/relay-list.ts';
import { withoutQuery } from '../domain/relay-url.ts';
import type { Log } from '../log.ts';
import type { RelayPool } from '../relays/relay-pool.ts';

/** People change their relays a few times a year. */
const FOUND_COUNTS_FOR_MS = 60 * 60_000;

/** Until a list that was not found is looked for again: it may be new, or a relay back. */
const NOT_FOUND_COUNTS_FOR_MS = 5 * 60_000;

/** The same where a relay had too much to do to be asked: in a moment it has not. */
const NOT_ASKED_COUNTS_FOR_MS = 10_000;

/** Whoever looks up a name waits no longer from the start of a lookup; most relays answer at once. */
const PATIENCE_MS = 2_000;

/** Once there is a list, only a newer one is worth waiting for: as long as a relay far away needs. */
const PATIENCE_WITH_LIST_MS = 300;

/** A lookup goes on for those who ask next, for as long as a slow relay may need. */
const ANSWER_TIMEOUT_MS = 5_000;

/**
 * Of each relay, so that one that is slow does not keep the others from being asked. The pool sends it ten
 * of them at a time; a relay far away answers as many within the patience of those who wait.
 */
const MAX_QUESTIONS_PER_RELAY = 100;

/** Far more than relays that answer ever have; what waits for those that do not is a few megabytes. */
const MAX_LOOKUPS = 1_000;

/** Two may be chance; nobody should wait for a relay that is gone. */
const MAX_SILENCES = 3;

/** After that a relay may be back, though nobody asked. */
const SILENCE_COUNTS_FOR_MS = 60_000;

/** Far more names than are looked up in an hour; ten megabytes where every list is a long one. */
const MAX_KEPT = 5_000;

/** What is known of one recipient. */
interface Known {
  list: RelayList | null;
  /** When it was last looked up, milliseconds since 1970. */
  askedAt: number;
  countsForMs: number;
}

/** What a relay had to say of a recipient. */
type RelayAnswer = 'found' | 'not_found' | 'unanswered' | 'not_asked';

/** Which relays recipients say that they use (NIP-65), as the operator's relays know it. */
export class RecipientRelays {
  readonly #pool: Pick<RelayPool, 'query'>;
  readonly #askedRelays: readonly AskedRelay[];
  readonly #allowPrivate: boolean;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #known = new RecentlyUsed<Known>(MAX_KEPT, () => ({
    list: null,
    askedAt: 0,
    countsForMs: 0,
  }));
  /** The lookups under way, by key; each promise is settled after {@link PATIENCE_MS} at the latest. */
  readonly #lookups = new Map<string, Promise<void>>();

  /**
   * @param parts.askedRelays the operator's; without any, nothing is known
   * @param parts.allowPrivate see `normaliseRelayUrl`
   */
  constructor(parts: {
    pool: Pick<RelayPool, 'query'>;
    askedRelays: readonly string[];
    allowPrivate: boolean;
    clock: Clock;
    log: Log;
  }) {
    this.#pool = parts.pool;
    this.#askedRelays = parts.askedRelays.map((url) => new AskedRelay(url));
    this.#allowPrivate = parts.allowPrivate;
    this.#clock = parts.clock;
    this.#log = parts.log;
  }

  /**
   * The relays where this recipient is found. What is known is served at once, and looked up anew
   * behind when it is old.
   *
   * @param pubkey hex
   * @returns none where the recipient published none, or nobody could tell in time
   */
  async of(pubkey: string): Promise<string[]> {
    if (this.#askedRelays.length === 0) {
      return [];
    }
    const known = this.#known.use(pubkey);
    const ageMs = this.#clock() - known.askedAt;
    // Older than now where the clock was set back: nobody knows how old.
    if (ageMs < 0 || ageMs >= known.countsForMs) {
      const answered = this.#lookUp(pubkey, known);
      if (known.list === null) {
        await answered;
      }
    }
    return known.list?.relays ?? [];
  }

  /** Settled when the lookup is over, or nobody should wait for it any more. */
  #lookUp(pubkey: string, known: Known): Promise<void> {
    const underWay = this.#lookups.get(pubkey);
    if (underWay !== undefined || this.#lookups.size >= MAX_LOOKUPS) {
      return underWay ?? Promise.resolve();
    }
    const nowMs = this.#clock();
    const ask = (relay: AskedRelay) => this.#ask(relay, pubkey, known);
    const awaited = this.#askedRelays.filter((relay) => !relay.isSilent(nowMs)).map(ask);
    const silent = this.#askedRelays.filter((relay) => relay.isSilent(nowMs)).map(ask);
    const answered = inTime(awaited);
    this.#lookups.set(pubkey, answered);
    void this.#conclude(known, [...awaited, ...silent]).finally(() => this.#lookups.delete(pubkey));
    return answered;
  }

  async #conclude(known: Known, asked: readonly Promise<RelayAnswer>[]): Promise<void> {
    const answers = await Promise.all(asked);
    if (answers.every((answer) => answer === 'not_found')) {
      known.list = null;
    }
    known.countsForMs = countsForMs(answers);
    known.askedAt = this.#clock();
  }

  /** Never rejects: nobody may be waiting. */
  #ask(relay: AskedRelay, pubkey: string, known: Known): Promise<RelayAnswer> {
    return this.#answerOf(relay, pubkey, known).catch((error: unknown) => {
      const url = withoutQuery(relay.url);
      this.#log.warn({ err: error, relay: url }, 'a relay list was not looked up');
      return 'unanswered';
    });
  }

  /** What a relay has counts at once, so that another that is slow does not hide it. */
  async #answerOf(relay: AskedRelay, pubkey: string, known: Known): Promise<RelayAnswer> {
    const nowMs = this.#clock();
    if (!relay.hasRoom(nowMs)) {
      return relay.isSilent(nowMs) ? 'unanswered' : 'not_asked';
    }
    const filter = { kinds: [RELAY_LIST_KIND], authors: [pubkey] };
    const options = { timeoutMs: ANSWER_TIMEOUT_MS, limit: 1 };
    const query = () => this.#pool.query(relay.url, filter, options);
    const events = await relay.answerTo(query, this.#clock);
    if (events === null) {
      return 'unanswered';
    }
    const lists = events
      .map((event) => readRelayList(event, { allowPrivate: this.#allowPrivate }))
      .filter((list) => list !== null);
    for (const list of lists) {
      known.list = known.list === null ? list : newerList(known.list, list);
    }
    return lists.length > 0 ? 'found' : 'not_found';
  }
}

/** One of the operator's relays, and whether it answers. */
class AskedRelay {
  readonly url: string;
  #questions = 0;
  /** How often in a row it did not answer, and when that was last, milliseconds since 1970. */
  #silences = 0;
  #silentAtMs = 0;

  constructor(url: string) {
    this.url = url;
  }

  /** Whether it is not to be waited for. */
  isSilent(nowMs: number): boolean {
    return this.#silences >= MAX_SILENCES && nowMs - this.#silentAtMs < SILENCE_COUNTS_FOR_MS;
  }

  /** Whether it may be asked: where it is silent, no more than it takes to see that it is back. */
  hasRoom(nowMs: number): boolean {
    return this.#questions < (this.isSilent(nowMs) ? 1 : MAX_QUESTIONS_PER_RELAY);
  }

  /** @param ask null: it did not answer */
  async answerTo<Answer>(ask: () => Promise<Answer | null>, clock: Clock): Promise<Answer | null> {
    this.#questions += 1;
    const answer = await ask().finally(() => {
      this.#questions -= 1;
    });
    this.#silences = answer === null ? this.#silences + 1 : 0;
    this.#silentAtMs = clock();
    return answer;
  }
}

/** So long nobody is asked again. */
function countsForMs(answers: readonly RelayAnswer[]): number {
  if (answers.includes('found')) {
    return FOUND_COUNTS_FOR_MS;
  }
  return answers.includes('not_asked') ? NOT_ASKED_COUNTS_FOR_MS : NOT_FOUND_COUNTS_FOR_MS;
}

/** Settled when all have answered, or nobody should wait for the others any more. */
function inTime(answers: readonly Promise<RelayAnswer>[]): Promise<void> {
  const all = Promise.all(answers);
  const withList = oneFound(answers).then(() => atMost(PATIENCE_WITH_LIST_MS, all));
  return atMost(PATIENCE_MS, Promise.race([all, withList]));
}

/** Settled only if there is one. */
function oneFound(answers: readonly Promise<RelayAnswer>[]): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  for (const answer of answers) {
    void answer.then((what) => (what === 'found' ? resolve() : undefined));
  }
  return promise;
}

async function atMost(waitMs: number, work: Promise<unknown>): Promise<void> {
  const { promise: isOver, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, waitMs);
  await Promise.race([work, isOver]);
  clearTimeout(timer);
}
