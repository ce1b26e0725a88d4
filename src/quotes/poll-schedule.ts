import type { QuoteState } from '../database/schema.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** Lightning payments can settle late and mints can answer late. */
const LATE_PAYMENT_GRACE_MS = DAY_MS;

/** A paid quote that was not collected in this time is no longer polled. */
const COLLECTION_WATCH_MS = 7 * DAY_MS;

/**
 * A watch ends with the second answer after its time, at least this long after the first one: our clock
 * may have jumped ahead, or the mint's backend may have been offline.
 */
const SECOND_LOOK_AFTER_MS = HOUR_MS;

/** One poll comes just after the expiry, when a payment in the last second has had time to settle. */
const AFTER_EXPIRY_MS = 5 * SECOND_MS;

/** Most invoices are paid within this time, or never. */
const YOUNG_MS = 10 * MINUTE_MS;

/** Mints issue within moments, and wallets read INFLIGHT as unpaid. */
const FIRST_INFLIGHT_INTERVAL_MS = 3 * SECOND_MS;

/** No quote is due earlier than this after a poll, except just after its expiry. */
export const SHORTEST_INTERVAL_MS = FIRST_INFLIGHT_INTERVAL_MS;

const LONGEST_INFLIGHT_INTERVAL_MS = HOUR_MS;

/** While younger than `untilMs`, poll after `everyMs`; less often while a subscription covers the quote. */
interface Step {
  untilMs: number;
  everyMs: number;
  coveredEveryMs: number;
}

const UNPAID_STEPS: readonly Step[] = [
  step(MINUTE_MS, 4 * SECOND_MS, 20 * SECOND_MS),
  step(YOUNG_MS, 15 * SECOND_MS, MINUTE_MS),
  step(HOUR_MS, MINUTE_MS, 5 * MINUTE_MS),
  step(DAY_MS, 10 * MINUTE_MS, 30 * MINUTE_MS),
  step(Number.POSITIVE_INFINITY, 2 * HOUR_MS, 4 * HOUR_MS),
];

/** By the time since the expiry. */
const EXPIRED_STEPS: readonly Step[] = [
  step(10 * MINUTE_MS, MINUTE_MS, 2 * MINUTE_MS),
  step(HOUR_MS, 10 * MINUTE_MS, 20 * MINUTE_MS),
  step(Number.POSITIVE_INFINITY, 2 * HOUR_MS, 4 * HOUR_MS),
];

/** By the time since the payment. A wallet that is online collects at once, and should see ISSUED soon. */
const PAID_STEPS: readonly Step[] = [
  step(2 * MINUTE_MS, 15 * SECOND_MS, 45 * SECOND_MS),
  step(HOUR_MS, MINUTE_MS, 2 * MINUTE_MS),
  step(DAY_MS, 10 * MINUTE_MS, 30 * MINUTE_MS),
  step(Number.POSITIVE_INFINITY, 2 * HOUR_MS, 4 * HOUR_MS),
];

/** If a mint cannot answer for all that is due, payments that may have just been made go first. */
const YOUNG_WEIGHT = 8;

/** What the schedule needs to know of a quote. Times in milliseconds since 1970. */
export interface ScheduledQuote {
  state: QuoteState;
  createdAtMs: number;
  expiresAtMs: number;
  /** When its payment was recorded; null before. */
  paidAtMs: number | null;
}

/** Until when an unpaid quote is watched (milliseconds since 1970). An expiry in the past costs no payment. */
export function latePaymentUntilMs(
  quote: Pick<ScheduledQuote, 'createdAtMs' | 'expiresAtMs'>,
): number {
  return Math.max(quote.expiresAtMs, quote.createdAtMs) + LATE_PAYMENT_GRACE_MS;
}

/** Until when a quote is watched (milliseconds since 1970); null if it is not. */
export function watchUntilMs(quote: ScheduledQuote): number | null {
  switch (quote.state) {
    case 'UNPAID':
      return latePaymentUntilMs(quote);
    case 'INFLIGHT':
    case 'PAID':
      return (quote.paidAtMs ?? quote.createdAtMs) + COLLECTION_WATCH_MS;
    case 'ISSUED':
    case 'EXPIRED':
      return null;
  }
}

/**
 * Whether an answer without news ends the watch.
 *
 * @param sinceLateAnswerMs time since the mint first answered after the time to watch was over
 */
export function endsWatch(
  quote: ScheduledQuote,
  nowMs: number,
  sinceLateAnswerMs: number,
): boolean {
  return isWatchOver(quote, nowMs) && sinceLateAnswerMs >= SECOND_LOOK_AFTER_MS;
}

/** Whether the time to watch a quote is over. The watch itself ends with an answer of the mint. */
export function isWatchOver(quote: ScheduledQuote, nowMs: number): boolean {
  return nowMs >= (watchUntilMs(quote) ?? 0);
}

/** When the mint was last asked about a quote, and how its answers reach us. Times in milliseconds. */
export interface PollHistory {
  sincePollMs: number;
  /** How long the current state had been known at that poll. */
  stateAgeAtPollMs: number;
  /** Whether a subscription reports the quote too. */
  isCovered: boolean;
}

/**
 * How urgently the mint should be asked about a quote: 0 if it is not due, otherwise how many intervals it
 * has waited, times a weight. The higher number goes first, so nothing waits for ever.
 *
 * @param nowMs milliseconds since 1970
 */
export function pollUrgency(quote: ScheduledQuote, nowMs: number, history: PollHistory): number {
  const { sincePollMs } = history;
  const intervals = sincePollMs / pollIntervalMs(quote, nowMs, history);
  const sinceExpiryMs = nowMs - quote.expiresAtMs - AFTER_EXPIRY_MS;
  const isJustExpired =
    quote.state === 'UNPAID' && sinceExpiryMs >= 0 && sincePollMs > sinceExpiryMs;
  const isYoung = quote.state === 'UNPAID' && nowMs - quote.createdAtMs < YOUNG_MS;
  const weight = isYoung || isJustExpired || quote.state === 'INFLIGHT' ? YOUNG_WEIGHT : 1;
  return intervals >= 1 || isJustExpired ? Math.max(1, intervals) * weight : 0;
}

/**
 * How long after a poll the next one is due, in milliseconds.
 *
 * @param nowMs milliseconds since 1970
 */
export function pollIntervalMs(
  quote: ScheduledQuote,
  nowMs: number,
  { stateAgeAtPollMs, isCovered }: Pick<PollHistory, 'stateAgeAtPollMs' | 'isCovered'>,
): number {
  switch (quote.state) {
    case 'INFLIGHT':
      return Math.min(
        Math.max(stateAgeAtPollMs, FIRST_INFLIGHT_INTERVAL_MS),
        LONGEST_INFLIGHT_INTERVAL_MS,
      );
    case 'PAID':
      return ofAge(PAID_STEPS, nowMs - (quote.paidAtMs ?? nowMs), isCovered);
    default: {
      const ageMs = nowMs - quote.createdAtMs;
      const sinceExpiryMs = nowMs - quote.expiresAtMs;
      // A mint's clock may be wrong: a young quote is polled often, whatever its expiry says.
      return sinceExpiryMs < AFTER_EXPIRY_MS || ageMs < YOUNG_MS
        ? ofAge(UNPAID_STEPS, ageMs, isCovered)
        : ofAge(EXPIRED_STEPS, sinceExpiryMs, isCovered);
    }
  }
}

function ofAge(steps: readonly Step[], ageMs: number, isCovered: boolean): number {
  const current = steps.find(({ untilMs }) => ageMs < untilMs) ?? (steps.at(-1) as Step);
  return isCovered ? current.coveredEveryMs : current.everyMs;
}

function step(untilMs: number, everyMs: number, coveredEveryMs: number): Step {
  return { untilMs, everyMs, coveredEveryMs };
}
