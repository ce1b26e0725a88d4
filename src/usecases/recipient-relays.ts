import type { Clock } from '../domain/clock.ts';
import { RecentlyUsed } from '../domain/recently-used.ts';
import { newerList, RELAY_LIST_KIND, type RelayList, readRelayList } from '../domain/relay-list.ts';
import type { Log } from '../log.ts';
import type { RelayPool } from '../relays/relay-pool.ts';

/** People change their relays a few times a year. */
const FOUND_COUNTS_FOR_MS = 60 * 60_000;

/** Until a list that was not found is looked for again: it may be new, or a relay back. */
const NOT_FOUND_COUNTS_FOR_MS = 5 * 60_000;

/** Whoever looks up a name waits no longer from the start of a lookup; most relays answer at once. */
const PATIENCE_MS = 2_000;

/** A lookup goes on for those who ask next, for as long as a slow relay may need. */
const ANSWER_TIMEOUT_MS = 5_000;

/** Each is a subscription at every relay, of which many relays allow twenty on one connection. */
const MAX_LOOKUPS = 10;

/** Far more names than are looked up in an hour; ten megabytes where every list is a long one. */
const MAX_KEPT = 5_000;

/** What is known of one recipient. */
interface Known {
  list: RelayList | null;
  /** When it was last looked up, milliseconds since 1970. */
  askedAt: number;
  countsForMs: number;
}

/** Which relays recipients say that they use (NIP-65), as the operator's relays know it. */
export class RecipientRelays {
  readonly #pool: Pick<RelayPool, 'query'>;
  readonly #askedRelays: readonly string[];
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
    this.#askedRelays = parts.askedRelays;
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
    const lookup = this.#ask(pubkey, known).finally(() => this.#lookups.delete(pubkey));
    const answered = atMost(PATIENCE_MS, lookup);
    this.#lookups.set(pubkey, answered);
    return answered;
  }

  async #ask(pubkey: string, known: Known): Promise<void> {
    const answers = await Promise.all(
      this.#askedRelays.map((url) => this.#askRelay(url, pubkey, known)),
    );
    if (answers.every((answer) => answer === 'not_found')) {
      known.list = null;
    }
    const isFound = answers.includes('found');
    known.countsForMs = isFound ? FOUND_COUNTS_FOR_MS : NOT_FOUND_COUNTS_FOR_MS;
    known.askedAt = this.#clock();
  }

  /** What a relay has counts at once, so that another that is slow does not hide it. */
  async #askRelay(
    url: string,
    pubkey: string,
    known: Known,
  ): Promise<'found' | 'not_found' | 'unanswered'> {
    const filter = { kinds: [RELAY_LIST_KIND], authors: [pubkey] };
    const events = await this.#pool
      .query(url, filter, { timeoutMs: ANSWER_TIMEOUT_MS, limit: 1 })
      .catch((error: unknown) => {
        this.#log.warn({ err: error, relay: url }, 'a relay list was not looked up');
        return null;
      });
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

async function atMost(waitMs: number, work: Promise<void>): Promise<void> {
  const { promise: isOver, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, waitMs);
  await Promise.race([work, isOver]);
  clearTimeout(timer);
}
