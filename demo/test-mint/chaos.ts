import type { Route } from './routes.ts';
import { SeededRandom } from './seeded-random.ts';

/** Faults of HTTP requests. Each request gets at most one fault. */
export const REQUEST_FAULTS = [
  /** Responds with 500 without handling the request. */
  'error',
  /** Handles the request, then sends half of the response body as if it were complete. */
  'garbage',
  /** Cuts the connection before handling the request. */
  'cutBefore',
  /** Handles the request, then cuts the connection instead of responding. */
  'cutAfter',
  /** Never responds, and does not handle the request. */
  'silence',
  /** Handles the request, but never responds. */
  'silenceAfter',
  /** Responds with 429 and `Retry-After`. */
  'rateLimit',
  /** Responds with 429, without `Retry-After`. */
  'bareRateLimit',
  /** Handles the request, then delays the response. */
  'late',
] as const;

/** Faults of WebSocket messages. Each message gets at most one fault. */
export const MESSAGE_FAULTS = ['lostMessage', 'lateMessage', 'repeatedMessage'] as const;

const OTHER_FAULTS = [
  /** Returns the quotes of a batch in a different order, some of them twice (NUT-29 allows both). */
  'shuffledBatch',
  /** Rejects a WebSocket upgrade. */
  'rejectedUpgrade',
  /** Sends UNPAID as the first state after a subscription, regardless of the quote's state. */
  'staleFirstState',
] as const;

const ALL_FAULTS = [...REQUEST_FAULTS, ...MESSAGE_FAULTS, ...OTHER_FAULTS] as const;

export type RequestFault = (typeof REQUEST_FAULTS)[number];
type Fault = (typeof ALL_FAULTS)[number];

/** The probability of each fault, from 0 to 1. Default: 0. */
export type ChaosRates = { [fault in Fault]?: number };

export interface ChaosConfig {
  rates: ChaosRates;
  /** Overrides `rates` on some routes. */
  ratesByRoute?: Partial<Record<Route, ChaosRates>>;
}

const MIN_DELAY_MS = 50;
const MAX_DELAY_MS = 2_000;

/** Share of quotes that a shuffled batch contains twice. */
const REPEATED_QUOTE_RATE = 0.1;

/**
 * Chooses random faults and counts them. Each route has its own random sequence, so that with the same seed
 * the n-th request to a route always gets the same fault.
 */
export class Chaos {
  readonly counts = Object.fromEntries(ALL_FAULTS.map((fault) => [fault, 0])) as Record<
    Fault,
    number
  >;
  readonly #switches: { readonly chaos: ChaosConfig | null };
  readonly #rootRandom: SeededRandom;
  readonly #randomByName = new Map<string, SeededRandom>();

  constructor(switches: { readonly chaos: ChaosConfig | null }, seed: string) {
    this.#switches = switches;
    this.#rootRandom = new SeededRandom(seed);
  }

  /** If the fault `shuffledBatch` is chosen, shuffles the quotes of a batch and repeats some of them. */
  maybeShuffleBatch<Quote>(quotes: readonly Quote[]): readonly Quote[] {
    if (!this.shouldInject('shuffledBatch')) {
      return quotes;
    }
    const random = this.#getRandom('shuffledBatch');
    const repeated = quotes.filter(() => random.chance(REPEATED_QUOTE_RATE));
    return random.shuffle([...quotes, ...repeated]);
  }

  randomDelayMs(): number {
    return this.#getRandom('delays').between(MIN_DELAY_MS, MAX_DELAY_MS);
  }

  shouldInject(fault: (typeof OTHER_FAULTS)[number]): boolean {
    return this.chooseFault([fault], fault) !== null;
  }

  /** Returns one of the faults, or null. @param sequenceName names the random sequence, such as a route */
  chooseFault<Kind extends Fault>(kinds: readonly Kind[], sequenceName: string): Kind | null {
    const { chaos } = this.#switches;
    if (chaos === null) {
      return null;
    }
    const rates: ChaosRates = { ...chaos.rates, ...chaos.ratesByRoute?.[sequenceName as Route] };
    // The rates are consecutive parts of the range from 0 to 1. The random number is in the part of at most one fault.
    let remainder = this.#getRandom(sequenceName).next();
    for (const kind of kinds) {
      remainder -= rates[kind] ?? 0;
      if (remainder < 0) {
        this.counts[kind] += 1;
        return kind;
      }
    }
    return null;
  }

  #getRandom(sequenceName: string): SeededRandom {
    const random = this.#randomByName.get(sequenceName) ?? this.#rootRandom.fork(sequenceName);
    this.#randomByName.set(sequenceName, random);
    return random;
  }
}
