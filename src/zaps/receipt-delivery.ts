import type { DeliveryState } from '../database/schema.ts';
import { printable } from '../untrusted-text.ts';

/**
 * Why a relay rejected an event, by the prefix of its message (NIP-01, NIP-42). `final`: no other attempt can change
 * that. `other`: it may accept the event later.
 */
export type RelayRefusal = 'final' | 'auth_required' | 'rate_limited' | 'other';

/**
 * The result of publishing an event at a relay. `word` is the relay's message, printable and short, maybe empty.
 *
 * - `accepted`: the relay has the event, now or since an earlier attempt.
 * - `refused`: the relay rejected it.
 * - `unanswered`: it was sent, but no answer arrived. The relay may have it.
 * - `unreachable`: it was not sent. `reason` is one of a fixed set of words.
 */
export type PublishResult =
  | { outcome: 'accepted'; word: string }
  | { outcome: 'refused'; refusal: RelayRefusal; word: string }
  | { outcome: 'unanswered' }
  | { outcome: 'unreachable'; reason: string };

/** What to store about a receipt after it was sent to a relay. */
export interface DeliveryStep {
  state: Exclude<DeliveryState, 'given_up'>;
  /** How often it was sent there. */
  tries: number;
  /** Milliseconds since 1970; null if nothing is left to do. */
  nextTryAtMs: number | null;
  /** The relay's message, or why there is none. */
  word: string;
}

export interface RelayStanding {
  failures: number;
  /** Nothing is sent before (milliseconds since 1970); null: it can be used now. */
  restUntilMs: number | null;
  /** Why it rests; null if it does not. */
  word: string | null;
}

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

/** A receipt that was not delivered within two days is given up. */
export const GIVE_UP_AFTER_MS = 48 * HOUR_MS;

/** Each interval is three times the previous one. */
const BACKOFF_FACTOR = 3;

/** Between attempts to deliver one receipt: soon at first, because its payer is looking at a screen. */
const RETRY_MS = { first: 10 * SECOND_MS, longest: 4 * HOUR_MS };

/** Before a relay that failed is used again: a restart takes seconds, a dead relay costs one connection an hour. */
const REST_MS = { first: 5 * SECOND_MS, longest: HOUR_MS };

/** Relays count by the minute. */
const SHORTEST_RATE_LIMIT_REST_MS = MINUTE_MS;

const REFUSAL_BY_PREFIX: ReadonlyMap<string, RelayRefusal> = new Map([
  ['blocked', 'final'],
  ['invalid', 'final'],
  ['pow', 'final'],
  ['restricted', 'final'],
  ['mute', 'final'],
  ['auth-required', 'auth_required'],
  ['rate-limited', 'rate_limited'],
]);

/** One word, then a colon. Some relays send only the word. */
const PREFIX = /^\s*([a-z]+(?:[-_ ][a-z]+)?)\s*(?::|$)/i;

/** Reads an OK of a relay (NIP-01), whose message is for example `rate-limited: slow down there`. */
export function readOk(isAccepted: boolean, message: string): PublishResult {
  const prefix = PREFIX.exec(message)?.[1]?.toLowerCase().replace(/[_ ]/, '-') ?? '';
  const word = printable(message);
  return isAccepted || prefix === 'duplicate'
    ? { outcome: 'accepted', word }
    : { outcome: 'refused', refusal: REFUSAL_BY_PREFIX.get(prefix) ?? 'other', word };
}

/**
 * Decides what follows from sending a receipt to a relay.
 *
 * @param triesBefore how often it was sent there before
 */
export function deliveryAfter(
  triesBefore: number,
  result: PublishResult,
  nowMs: number,
): DeliveryStep {
  const word = wordOf(result);
  const tries = triesBefore + 1;
  switch (result.outcome) {
    case 'unreachable':
      // The relay rests; the receipt has not been tried.
      return { state: 'open', tries: triesBefore, nextTryAtMs: nowMs, word };
    case 'accepted':
      return { state: 'accepted', tries, nextTryAtMs: null, word };
    default:
      return result.outcome === 'refused' && result.refusal === 'final'
        ? { state: 'refused', tries, nextTryAtMs: null, word }
        : { state: 'open', tries, nextTryAtMs: nowMs + backoffMs(RETRY_MS, triesBefore), word };
  }
}

/**
 * Decides how a relay stands after receipts were sent to it.
 *
 * @param failures what it had before; one that accepted a receipt before it failed has one afterwards
 */
export function standingAfter(
  failures: number,
  results: readonly PublishResult[],
  nowMs: number,
): RelayStanding {
  const trouble = results.find(
    (result) =>
      result.outcome === 'unreachable' || result.outcome === 'unanswered' || isRateLimit(result),
  );
  if (trouble === undefined) {
    return { failures: 0, restUntilMs: null, word: null };
  }
  const count = results.some(({ outcome }) => outcome === 'accepted') ? 1 : failures + 1;
  const leastMs = isRateLimit(trouble) ? SHORTEST_RATE_LIMIT_REST_MS : 0;
  const restMs = Math.max(leastMs, backoffMs(REST_MS, count - 1));
  return { failures: count, restUntilMs: nowMs + restMs, word: wordOf(trouble) };
}

function isRateLimit(result: PublishResult): boolean {
  return result.outcome === 'refused' && result.refusal === 'rate_limited';
}

function wordOf(result: PublishResult): string {
  switch (result.outcome) {
    case 'unreachable':
      return result.reason;
    case 'unanswered':
      return 'no answer';
    default:
      return result.word;
  }
}

function backoffMs({ first, longest }: { first: number; longest: number }, index: number): number {
  return Math.min(longest, first * BACKOFF_FACTOR ** index);
}
