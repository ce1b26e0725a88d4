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
  /** How many receipts the relay took. */
  acceptances: number;
  /** Whether it took longer than {@link SLOW_ANSWER_MS} to say something about one. */
  isSlow: boolean;
  /** Why no more was sent, though more may have been due; null where nothing was in the way. */
  trouble: RelayTrouble | null;
}

/** What can be in the way of a relay as a whole. */
export type RelayTrouble =
  /** It wants to be sent less at a time. */
  | { kind: 'rate_limited' }
  /** No connection could be had, or it was lost or left without an answer. */
  | { kind: 'unreachable' | 'silent'; word: string }
  /** It left without an answer what was sent alone, and had none before: that may be the receipt's doing. */
  | { kind: 'silent_at_suspect'; word: string };

/** What is known of a relay before a turn. */
export interface RelayRecord {
  /** As {@link RelayStanding.failures}. */
  failures: number;
  /** Whether a turn ever went well there. */
  hasServed: boolean;
  /** Whether the operator named it, and not a stranger. */
  isOwn: boolean;
}

/** What is known of a relay after a turn. */
export interface RelayStanding {
  /** Turns in a row that went badly; those in which it took something all the same count as one. */
  failures: number;
  /** It is left alone until then (milliseconds since 1970); null: it may be used at once. */
  restUntilMs: number | null;
  /** Why it rests; null where it does not. */
  word: string | null;
}

/** How a relay stands after a turn, and whether that turn went well. */
export interface TurnResult extends RelayStanding {
  /** It took something, and answered all in good time. */
  wentWell: boolean;
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
 * After each turn in a row that went badly, how long the relay is left alone; the last one repeats. A
 * relay that is started anew is back in seconds, one that was shut down for ever costs a connection an
 * hour until its receipts are given up.
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

/**
 * One that strangers name and that never served rests as if it had failed so many times more: most of
 * them were never there, and those that are new wait for their places.
 */
const FAILURES_OF_STRANGERS = 2;

/**
 * As {@link REST_AFTER_MS}, where the relay wants less. Limits are counted by the minute; one that takes
 * nothing, however little it is sent, does not want any.
 */
const RATE_LIMITED_REST_MS = [
  MINUTE_MS,
  2 * MINUTE_MS,
  5 * MINUTE_MS,
  15 * MINUTE_MS,
  30 * MINUTE_MS,
  HOUR_MS,
] as const;

/** Relays answer within a second; one that takes longer than this keeps its place from many others. */
export const SLOW_ANSWER_MS = 5 * SECOND_MS;

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
export const NO_ANSWER = 'no answer';

/** Why a relay rests that had a word for everything, but late. */
const SLOW = 'slow answers';

/**
 * What is to become of a receipt after a relay was sent it.
 *
 * @param tries how often the relay was sent it before
 * @param options.canAuthenticate whether there is a key to answer a demand for AUTH with (NIP-42): then
 *   `auth_required` says that the relay would not have it; without one, the demand may be met one day
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

/** How a relay stands after a turn in which something was sent to it, or could not be. */
export function afterTurn(before: RelayRecord, end: TurnEnd, nowMs: number): TurnResult {
  const { trouble } = end;
  const wentWell = hasGoneWell(end);
  const failures = wentWell ? 0 : failuresAfter(before, end);
  if (trouble?.kind === 'rate_limited') {
    const restMs = entry(RATE_LIMITED_REST_MS, Math.max(0, failures - 1));
    return { failures, restUntilMs: nowMs + restMs, word: 'rate-limited', wentWell };
  }
  if (trouble === null && !end.isSlow) {
    return { failures, restUntilMs: null, word: null, wentWell };
  }
  const isStrangers = !before.hasServed && !before.isOwn && end.acceptances === 0;
  const counted = failures + (isStrangers ? FAILURES_OF_STRANGERS : 0);
  const restMs = entry(REST_AFTER_MS, Math.max(0, counted - 1));
  return { failures, restUntilMs: nowMs + restMs, word: trouble?.word ?? SLOW, wentWell };
}

function hasGoneWell(end: TurnEnd): boolean {
  const kind = end.trouble?.kind ?? null;
  const hasFailed = kind === 'unreachable' || kind === 'silent';
  return end.acceptances > 0 && !hasFailed && !end.isSlow;
}

/** Of a turn that did not go well. */
function failuresAfter(before: RelayRecord, end: TurnEnd): number {
  if (end.acceptances > 0) {
    // It is there, however often it hangs up or falls asleep.
    return 1;
  }
  const saysNo = end.trouble === null && !end.isSlow;
  const mayBeTheReceipt = end.trouble?.kind === 'silent_at_suspect' && before.hasServed;
  return saysNo || mayBeTheReceipt ? before.failures : before.failures + 1;
}

function isForGood(refusal: RelayRefusal, canAuthenticate: boolean): boolean {
  return IS_FINAL[refusal] && (refusal !== 'auth_required' || canAuthenticate);
}

/** An entry of a table whose last one repeats. */
function entry(table: readonly [number, ...number[]], index: number): number {
  return table[index] ?? table[table.length - 1] ?? table[0];
}
