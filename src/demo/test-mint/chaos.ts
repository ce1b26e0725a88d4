import { Dice } from './dice.ts';
import type { Route } from './routes.ts';

/**
 * How often something goes wrong at the mint: each number is a share, from 0 (never) to 1 (always).
 * What has no share never happens. Of what can befall a request, one thing at most does; the shares
 * of these are added up.
 */
export interface ChaosRates {
  /** A request is answered 500 or 503, and nothing is done. */
  error?: number;
  /** A request is done, and half of the answer comes, as if it were the whole one. */
  garbage?: number;
  /** The connection is cut before anything is done. */
  cutBefore?: number;
  /** The connection is cut after all is done: the answer is lost. */
  cutAfter?: number;
  /** A request is never answered, and nothing is done. */
  silence?: number;
  /** 429 with a `Retry-After` of a second or two. */
  rateLimit?: number;
  /** 429 without a word on when to come back. */
  bareRateLimit?: number;
  /** A request is done, and the answer comes late: others, and the socket, overtake it. */
  late?: number;
  /** A request is done, and never answered. */
  silenceAfter?: number;

  /** The answers to a batch come in another order, some of them twice (NUT-29 promises neither). */
  shuffledBatch?: number;

  /** An opening of the WebSocket is refused, cut or never answered. */
  brokenOpening?: number;
  /** A message of the WebSocket is lost. */
  lostMessage?: number;
  /** A message of the WebSocket comes late: others overtake it. */
  lateMessage?: number;
  /** A message of the WebSocket comes twice. */
  repeatedMessage?: number;
  /** The first state after a subscription says UNPAID, whatever is true. */
  staleFirstState?: number;
}

/** What goes wrong by chance. */
export interface ChaosSwitch {
  rates: ChaosRates;
  /** Where it is otherwise on some routes. */
  ratesByRoute?: Partial<Record<Route, ChaosRates>>;
}

/** What befalls one request. */
export type RequestFault =
  | { kind: 'error'; status: 500 | 503 }
  | { kind: 'rateLimit'; retryAfterSeconds: number }
  | { kind: 'late'; delayMs: number }
  | { kind: 'garbage' | 'cutBefore' | 'cutAfter' | 'silence' | 'silenceAfter' | 'bareRateLimit' };

/** What befalls an opening of the WebSocket; a text is the status of the refusal. */
export type OpeningFault = (typeof OPENING_FAULTS)[number];

/** What befalls one message of the WebSocket. */
export type MessageFault =
  | { kind: 'lateMessage'; delayMs: number }
  | { kind: 'lostMessage' | 'repeatedMessage' };

/** Late is between these. */
const SHORTEST_DELAY_MS = 50;
const LONGEST_DELAY_MS = 2_000;

/** Of the answers of a shuffled batch, so many come twice. */
const REPEATED_SHARE = 0.1;

/**
 * Decides what goes wrong, request by request and message by message, and counts it. The decisions
 * of a route follow from the seed and from how many there were on that route before.
 */
export class Chaos {
  readonly #switches: { readonly chaos: ChaosSwitch | null };
  readonly #dice: Dice;
  readonly #diceByName = new Map<string, Dice>();
  readonly #counts: Record<keyof ChaosRates, number> = {
    error: 0,
    garbage: 0,
    cutBefore: 0,
    cutAfter: 0,
    silence: 0,
    rateLimit: 0,
    bareRateLimit: 0,
    late: 0,
    silenceAfter: 0,
    shuffledBatch: 0,
    brokenOpening: 0,
    lostMessage: 0,
    lateMessage: 0,
    repeatedMessage: 0,
    staleFirstState: 0,
  };

  constructor(switches: { readonly chaos: ChaosSwitch | null }, seed: string) {
    this.#switches = switches;
    this.#dice = new Dice(seed);
  }

  /** How often each thing has gone wrong. */
  get counts(): Readonly<Record<keyof ChaosRates, number>> {
    return this.#counts;
  }

  /** @returns null: nothing goes wrong with this request */
  requestFault(route: Route): RequestFault | null {
    const kind = this.#choose(route, REQUEST_FAULTS, this.#switches.chaos?.ratesByRoute?.[route]);
    const dice = this.#diceFor(route);
    switch (kind) {
      case null:
        return null;
      case 'error':
        return { kind, status: dice.pick([500, 503]) };
      case 'rateLimit':
        return { kind, retryAfterSeconds: dice.pick([1, 2]) };
      case 'late':
        return { kind, delayMs: dice.between(SHORTEST_DELAY_MS, LONGEST_DELAY_MS) };
      default:
        return { kind };
    }
  }

  /** @returns null: nothing goes wrong with this opening of the WebSocket */
  openingFault(): OpeningFault | null {
    const isBroken = this.#choose('openings', ['brokenOpening']) !== null;
    return isBroken ? this.#diceFor('openings').pick(OPENING_FAULTS) : null;
  }

  /** @returns null: nothing goes wrong with this message */
  messageFault(): MessageFault | null {
    const kind = this.#choose('messages', MESSAGE_FAULTS);
    return kind === 'lateMessage'
      ? { kind, delayMs: this.#diceFor('messages').between(SHORTEST_DELAY_MS, LONGEST_DELAY_MS) }
      : kind && { kind };
  }

  /** The answers of a batch, as they go out. */
  batch<Answer>(answers: readonly Answer[]): readonly Answer[] {
    if (this.#choose('batches', ['shuffledBatch']) === null) {
      return answers;
    }
    const dice = this.#diceFor('batches');
    const repeated = answers.filter(() => dice.happens(REPEATED_SHARE));
    return dice.shuffled([...answers, ...repeated]);
  }

  /** Whether the first state after a subscription is an old one. */
  isFirstStateStale(): boolean {
    return this.#choose('first states', ['staleFirstState']) !== null;
  }

  /** One of these things, or none of them, each as often as its rate says. */
  #choose<Kind extends keyof ChaosRates>(
    name: string,
    kinds: readonly Kind[],
    differing: ChaosRates = {},
  ): Kind | null {
    const { chaos } = this.#switches;
    if (chaos === null) {
      return null;
    }
    const rates: ChaosRates = { ...chaos.rates, ...differing };
    let left = this.#diceFor(name).roll();
    for (const kind of kinds) {
      left -= rates[kind] ?? 0;
      if (left < 0) {
        this.#counts[kind] += 1;
        return kind;
      }
    }
    return null;
  }

  #diceFor(name: string): Dice {
    const dice = this.#diceByName.get(name) ?? this.#dice.fork(name);
    this.#diceByName.set(name, dice);
    return dice;
  }
}

const REQUEST_FAULTS = [
  'error',
  'garbage',
  'cutBefore',
  'cutAfter',
  'silence',
  'rateLimit',
  'bareRateLimit',
  'late',
  'silenceAfter',
] as const;

const OPENING_FAULTS = [
  '503 Service Unavailable',
  '429 Too Many Requests',
  'cut',
  'silence',
] as const;

const MESSAGE_FAULTS = ['lostMessage', 'lateMessage', 'repeatedMessage'] as const;
