import { Dice } from './dice.ts';
import type { Route } from './routes.ts';

/** What can happen to a request; at most one of these does. */
export const REQUEST_FAULTS = [
  /** 500, and nothing is done. */
  'error',
  /** The request is done, and half of the answer is sent as if it were complete. */
  'garbage',
  /** The connection is cut before anything is done. */
  'cutBefore',
  /** The connection is cut after the request is done: the answer is lost. */
  'cutAfter',
  /** The request is never answered, and nothing is done. */
  'silence',
  /** The request is done, and never answered. */
  'silenceAfter',
  /** 429 with `Retry-After`. */
  'rateLimit',
  /** 429 without `Retry-After`. */
  'bareRateLimit',
  /** The request is done, and the answer is delayed: other answers and the socket overtake it. */
  'late',
] as const;

/** What can happen to a message of the WebSocket; at most one of these does. */
export const MESSAGE_FAULTS = ['lostMessage', 'lateMessage', 'repeatedMessage'] as const;

const OTHER_FAULTS = [
  /** The answers to a batch come in another order, some of them twice (NUT-29 allows both). */
  'shuffledBatch',
  /** The opening of a WebSocket is refused. */
  'brokenOpening',
  /** The first state after a subscription is UNPAID, whatever the quote's state is. */
  'staleFirstState',
] as const;

const ALL_FAULTS = [...REQUEST_FAULTS, ...MESSAGE_FAULTS, ...OTHER_FAULTS] as const;

export type RequestFault = (typeof REQUEST_FAULTS)[number];
type Fault = (typeof ALL_FAULTS)[number];

/** How often each fault happens, from 0 (never, the default) to 1 (always). */
export type ChaosRates = { [fault in Fault]?: number };

/** What goes wrong at random. */
export interface ChaosSwitch {
  rates: ChaosRates;
  /** Rates that differ on some routes. */
  ratesByRoute?: Partial<Record<Route, ChaosRates>>;
}

const SHORTEST_DELAY_MS = 50;
const LONGEST_DELAY_MS = 2_000;

/** The share of answers in a shuffled batch that come twice. */
const REPEATED_SHARE = 0.1;

/** Decides what goes wrong, and counts it. The decisions on a route follow from the seed and their order. */
export class Chaos {
  readonly counts = Object.fromEntries(ALL_FAULTS.map((fault) => [fault, 0])) as Record<
    Fault,
    number
  >;
  readonly #switches: { readonly chaos: ChaosSwitch | null };
  readonly #seed: Dice;
  readonly #dice = new Map<string, Dice>();

  constructor(switches: { readonly chaos: ChaosSwitch | null }, seed: string) {
    this.#switches = switches;
    this.#seed = new Dice(seed);
  }

  /** Returns the answers of a batch in the order in which they are sent. */
  batch<Answer>(answers: readonly Answer[]): readonly Answer[] {
    if (!this.happens('shuffledBatch')) {
      return answers;
    }
    const dice = this.#diceFor('shuffledBatch');
    const repeated = answers.filter(() => dice.happens(REPEATED_SHARE));
    return dice.shuffled([...answers, ...repeated]);
  }

  /** How long a late answer or message is delayed. */
  delayMs(): number {
    return this.#diceFor('delays').between(SHORTEST_DELAY_MS, LONGEST_DELAY_MS);
  }

  happens(fault: (typeof OTHER_FAULTS)[number]): boolean {
    return this.choose([fault], fault) !== null;
  }

  /** Returns one of these faults, or null. Different names, such as routes, have independent dice. */
  choose<Kind extends Fault>(kinds: readonly Kind[], name: string): Kind | null {
    const { chaos } = this.#switches;
    if (chaos === null) {
      return null;
    }
    const rates: ChaosRates = { ...chaos.rates, ...chaos.ratesByRoute?.[name as Route] };
    let left = this.#diceFor(name).roll();
    for (const kind of kinds) {
      left -= rates[kind] ?? 0;
      if (left < 0) {
        this.counts[kind] += 1;
        return kind;
      }
    }
    return null;
  }

  #diceFor(name: string): Dice {
    const dice = this.#dice.get(name) ?? this.#seed.fork(name);
    this.#dice.set(name, dice);
    return dice;
  }
}
