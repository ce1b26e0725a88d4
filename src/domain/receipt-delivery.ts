import type { RelayRefusal } from './relay-word.ts';

/**
 * How a zap receipt stands with one relay: on its way; there; turned away for good; or left, because
 * nothing came of it for too long.
 */
export type DeliveryState = 'open' | 'accepted' | 'refused' | 'given_up';

/** What a relay made of a receipt that it was sent. Its words are fit to be shown. */
export type Reception =
  | { outcome: 'accepted'; word: string }
  | { outcome: 'refused'; refusal: RelayRefusal; word: string }
  /** No word came in time, or the connection was lost first: it may have it. */
  | { outcome: 'unanswered' };

/** What is to become of a receipt that was just sent to a relay. Times in milliseconds since 1970. */
export interface DeliveryStep {
  state: Exclude<DeliveryState, 'given_up'>;
  /** Null where there is nothing more to do. */
  nextTryAtMs: number | null;
  /** What came of it, in the relay's words where it had any. */
  word: string;
}

/** How the attempt to send a relay what is due there ended. */
export interface TurnEnd {
  /** How many receipts the relay said something about. */
  answers: number;
  /** Why no more was sent, though more may have been due; null where nothing was in the way. */
  trouble: RelayTrouble | null;
}

/** What can be in the way of a relay as a whole. */
export type RelayTrouble =
  /** It wants to be sent less at a time. */
  | { kind: 'rate_limited' }
  /** No connection could be had, or it was lost or left without an answer. */
  | { kind: 'unreachable' | 'silent'; word: string };

/** What is known of a relay after a turn. */
export interface RelayStanding {
  /** Connections in a row that came to nothing. */
  failures: number;
  /** It is left alone until then (milliseconds since 1970); null: it may be used at once. */
  restUntilMs: number | null;
  /** Why it rests; null where it does not. */
  word: string | null;
}

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

/** Nobody waits for a receipt of two days ago: what was not taken by then is left. */
export const GIVE_UP_AFTER_MS = 2 * 24 * HOUR_MS;

/**
 * After each try that came to nothing, how long until the next; the last one repeats. At first somebody
 * looks at a screen and most troubles pass; later they are the relay's, and it has thousands of us.
 */
const TRY_AGAIN_AFTER_MS = [
  10 * SECOND_MS,
  30 * SECOND_MS,
  2 * MINUTE_MS,
  10 * MINUTE_MS,
  30 * MINUTE_MS,
  HOUR_MS,
  2 * HOUR_MS,
  4 * HOUR_MS,
] as const;

/**
 * After each connection in a row that came to nothing, how long the relay is left alone; the last one
 * repeats. A relay that is started anew is back in seconds, one that was shut down for ever costs a
 * connection an hour until its receipts are given up.
 */
const REST_AFTER_MS = [
  5 * SECOND_MS,
  15 * SECOND_MS,
  45 * SECOND_MS,
  2 * MINUTE_MS,
  5 * MINUTE_MS,
  15 * MINUTE_MS,
  30 * MINUTE_MS,
  HOUR_MS,
] as const;

/** Limits of relays are counted by the minute. */
const RATE_LIMITED_REST_MS = MINUTE_MS;

/** Nothing is ever planned further off than this. */
export const LONGEST_DISTANCE_MS = 4 * HOUR_MS;

/** Nothing ever rests for longer than this. */
export const LONGEST_REST_MS = HOUR_MS;

/** Refusals that no other try can turn into an acceptance (NIP-01, NIP-42); the others may pass. */
const IS_FINAL: Readonly<Record<RelayRefusal, boolean>> = {
  blocked: true,
  invalid: true,
  pow: true,
  restricted: true,
  mute: true,
  auth_required: true,
  rate_limited: false,
  error: false,
  other: false,
};

/** Stands for a word where none came. */
const NO_ANSWER = 'no answer';

/**
 * What is to become of a receipt after a relay was sent it.
 *
 * @param tries how often the relay was sent it before
 * @param options.canAuthenticate whether AUTH was tried where it was asked for (NIP-42); where it could
 *   not be, a demand for it may still be met one day
 */
export function afterTry(
  tries: number,
  reception: Reception,
  nowMs: number,
  options: { canAuthenticate: boolean },
): DeliveryStep {
  const word = reception.outcome === 'unanswered' ? NO_ANSWER : reception.word;
  if (reception.outcome === 'accepted') {
    return { state: 'accepted', nextTryAtMs: null, word };
  }
  if (reception.outcome === 'refused' && isForGood(reception.refusal, options.canAuthenticate)) {
    return { state: 'refused', nextTryAtMs: null, word };
  }
  return { state: 'open', nextTryAtMs: nowMs + entry(TRY_AGAIN_AFTER_MS, tries), word };
}

/** How a relay stands after a turn, of which something is known now: a failure, or an answer. */
export function afterTurn(failuresBefore: number, end: TurnEnd, nowMs: number): RelayStanding {
  const { answers, trouble } = end;
  if (trouble === null) {
    return { failures: 0, restUntilMs: null, word: null };
  }
  if (trouble.kind === 'rate_limited') {
    return { failures: 0, restUntilMs: nowMs + RATE_LIMITED_REST_MS, word: 'rate-limited' };
  }
  // One that took something is there, however often it hangs up, but is given time to breathe.
  const failures = answers > 0 ? 0 : failuresBefore + 1;
  const restUntilMs = nowMs + entry(REST_AFTER_MS, Math.max(0, failures - 1));
  return { failures, restUntilMs, word: trouble.word };
}

function isForGood(refusal: RelayRefusal, canAuthenticate: boolean): boolean {
  return IS_FINAL[refusal] && (refusal !== 'auth_required' || canAuthenticate);
}

/** An entry of a table whose last one repeats. */
function entry(table: readonly [number, ...number[]], index: number): number {
  return table[index] ?? table[table.length - 1] ?? table[0];
}
