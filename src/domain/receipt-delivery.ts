import { printable } from './foreign-text.ts';

/** The state of a zap receipt at one relay. `given_up`: {@link GIVE_UP_AFTER_MS} passed without success. */
export type DeliveryState = 'open' | 'accepted' | 'refused' | 'given_up';

/** Why a relay rejected an event, by the prefix of its message (NIP-01, NIP-42). `other`: no known prefix. */
export type RelayRefusal =
  | 'blocked'
  | 'invalid'
  | 'pow'
  | 'restricted'
  | 'mute'
  | 'auth_required'
  | 'rate_limited'
  | 'error'
  | 'other';

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
  /** Milliseconds since 1970; null if nothing is left to do. */
  nextTryAtMs: number | null;
  /** The relay's message, or `no answer`. */
  word: string;
}

/** Whether a relay can be used. */
export interface RelayStanding {
  /** Consecutive failures; a relay that accepted something before it failed has one. */
  failures: number;
  /** Nothing is sent before (milliseconds since 1970); null: it can be used now. */
  restUntilMs: number | null;
  /** Why it rests; null if it does not. */
  word: string | null;
}

/** What became of the receipts that were sent to a relay in a row. */
export interface BatchResult {
  /** Whether the relay accepted any of them. */
  hasAccepted: boolean;
  /** What prevents sending more for now. */
  trouble: { isRateLimit: boolean; word: string } | null;
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

/** Stored in place of a relay's message if there was none. */
const NO_ANSWER = 'no answer';

/** Refusals that no other attempt can change (NIP-01, NIP-42). */
const FINAL_REFUSALS: ReadonlySet<RelayRefusal> = new Set([
  'blocked',
  'invalid',
  'pow',
  'restricted',
  'mute',
]);

const REFUSAL_BY_PREFIX: ReadonlyMap<string, RelayRefusal> = new Map([
  ['blocked', 'blocked'],
  ['invalid', 'invalid'],
  ['pow', 'pow'],
  ['restricted', 'restricted'],
  ['mute', 'mute'],
  ['auth-required', 'auth_required'],
  ['rate-limited', 'rate_limited'],
  ['error', 'error'],
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
 * @param tries how often it was sent there before
 * @returns null if it was not sent
 */
export function deliveryAfter(
  tries: number,
  result: PublishResult,
  nowMs: number,
): DeliveryStep | null {
  if (result.outcome === 'unreachable') {
    return null;
  }
  const word = result.outcome === 'unanswered' ? NO_ANSWER : result.word;
  if (result.outcome === 'accepted') {
    return { state: 'accepted', nextTryAtMs: null, word };
  }
  if (result.outcome === 'refused' && FINAL_REFUSALS.has(result.refusal)) {
    return { state: 'refused', nextTryAtMs: null, word };
  }
  return { state: 'open', nextTryAtMs: nowMs + backoffMs(RETRY_MS, tries), word };
}

/** What a result says about the relay as a whole; null: more can be sent. */
export function troubleIn(result: PublishResult): BatchResult['trouble'] {
  switch (result.outcome) {
    case 'unreachable':
      return { isRateLimit: false, word: result.reason };
    case 'unanswered':
      return { isRateLimit: false, word: NO_ANSWER };
    case 'refused':
      return result.refusal === 'rate_limited' ? { isRateLimit: true, word: 'rate-limited' } : null;
    case 'accepted':
      return null;
  }
}

/** Decides how a relay stands after receipts were sent to it; `failures` is what it had before. */
export function standingAfter(
  failures: number,
  { hasAccepted, trouble }: BatchResult,
  nowMs: number,
): RelayStanding {
  if (trouble === null) {
    return { failures: 0, restUntilMs: null, word: null };
  }
  const count = hasAccepted ? 1 : failures + 1;
  const leastMs = trouble.isRateLimit ? SHORTEST_RATE_LIMIT_REST_MS : 0;
  const restMs = Math.max(leastMs, backoffMs(REST_MS, count - 1));
  return { failures: count, restUntilMs: nowMs + restMs, word: trouble.word };
}

function backoffMs({ first, longest }: { first: number; longest: number }, index: number): number {
  return Math.min(longest, first * BACKOFF_FACTOR ** index);
}
