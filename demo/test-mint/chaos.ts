import type { Route } from './routes.ts';
import { SeededRandom } from './seeded-random.ts';

/** Faults of a request. At most one is injected per request. */
export const REQUEST_FAULTS = [
  /** Responds with 500 without handling the request. */
  'error',
  /** Handles the request, then sends half of the response body as if it were complete. */
  'garbage',
  /** Cuts the connection before handling the request. */
  'cutBefore',
  /** Handles the request, then cuts the connection instead of responding. */
  'cutAfter',
  /** Neither handles the request nor responds. */
  'silence',
  /** Handles the request, but never responds. */
  'silenceAfter',
  /** 429 with `Retry-After`. */
  'rateLimit',
  /** 429 without `Retry-After`. */
  'bareRateLimit',
  /** Handles the request, then delays the response. */
  'late',
] as const;

/** Faults of a WebSocket message. At most one is injected per message. */
export const MESSAGE_FAULTS = ['lostMessage', 'lateMessage', 'repeatedMessage'] as const;

const OTHER_FAULTS = [
  /** Returns the quotes of a batch in a different order, some of them twice (NUT-29 allows both). */
  'shuffledBatch',
  /** Rejects a WebSocket upgrade. */
  'brokenOpening',
  /** Sends UNPAID as the first state after a subscription, regardless of the quote's state. */
  'staleFirstState',
] as const;

const ALL_FAULTS = [...REQUEST_FAULTS, ...MESSAGE_FAULTS, ...OTHER_FAULTS] as const;

export type RequestFault = (typeof REQUEST_FAULTS)[number];
type Fault = (typeof ALL_FAULTS)[number];

/** Probability of each fault, from 0 (the default) to 1. */
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

/** Chooses faults and counts them. The choices for each route depend only on the seed and their order. */
export class Chaos {
  readonly counts = Object.fromEntries(ALL_FAULTS.map((fault) => [fault, 0])) as Record<
    Fault,
    number
  >;
  readonly #switches: { readonly chaos: ChaosConfig | null };
  readonly #seed: SeededRandom;
  readonly #randomByName = new Map<string, SeededRandom>();

  constructor(switches: { readonly chaos: ChaosConfig | null }, seed: string) {
    this.#switches = switches;
    this.#seed = new SeededRandom(seed);
  }

  /** Returns the quotes of a batch response in the order in which to send them. */
  shuffleBatch<Quote>(quotes: readonly Quote[]): readonly Quote[] {
    if (!this.shouldInject('shuffledBatch')) {
      return quotes;
    }
    const random = this.#randomFor('shuffledBatch');
    const repeated = quotes.filter(() => random.chance(REPEATED_QUOTE_RATE));
    return random.shuffle([...quotes, ...repeated]);
  }

  /** Returns the delay for a late response or message. */
  randomDelayMs(): number {
    return this.#randomFor('delays').between(MIN_DELAY_MS, MAX_DELAY_MS);
  }

  shouldInject(fault: (typeof OTHER_FAULTS)[number]): boolean {
    return this.chooseFault([fault], fault) !== null;
  }

  /** Returns one of these faults, or null. Each name, such as a route, has an independent random sequence. */
  chooseFault<Kind extends Fault>(kinds: readonly Kind[], name: string): Kind | null {
    const { chaos } = this.#switches;
    if (chaos === null) {
      return null;
    }
    const rates: ChaosRates = { ...chaos.rates, ...chaos.ratesByRoute?.[name as Route] };
    let remainder = this.#randomFor(name).next();
    for (const kind of kinds) {
      remainder -= rates[kind] ?? 0;
      if (remainder < 0) {
        this.counts[kind] += 1;
        return kind;
      }
    }
    return null;
  }

  #randomFor(name: string): SeededRandom {
    const random = this.#randomByName.get(name) ?? this.#seed.fork(name);
    this.#randomByName.set(name, random);
    return random;
  }
}
