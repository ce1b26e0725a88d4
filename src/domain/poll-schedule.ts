import type { QuoteState } from './quote.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** Lightning can settle late and backends answer late: so long after expiry a payment is waited for. */
const LATE_PAYMENT_GRACE_MS = DAY_MS;

/** A paid quote that was not collected in this time is no longer asked about. */
const COLLECTION_WATCH_MS = 7 * DAY_MS;

/** The one look just after expiry, when a payment in the last second has had time to settle. */
const AFTER_EXPIRY_MS = 5 * SECOND_MS;

/** Most invoices are paid in this time or never. */
const YOUNG_MS = 10 * MINUTE_MS;

/** While younger than `untilMs`, look again after `everyMs`; sparser where a socket tells as well. */
interface Step {
  untilMs: number;
  everyMs: number;
  coveredEveryMs: number;
}

const UNPAID_STEPS: readonly Step[] = [
  { untilMs: MINUTE_MS, everyMs: 4 * SECOND_MS, coveredEveryMs: 20 * SECOND_MS },
  { untilMs: YOUNG_MS, everyMs: 15 * SECOND_MS, coveredEveryMs: MINUTE_MS },
  { untilMs: HOUR_MS, everyMs: MINUTE_MS, coveredEveryMs: 5 * MINUTE_MS },
  { untilMs: Number.POSITIVE_INFINITY, everyMs: 10 * MINUTE_MS, coveredEveryMs: 30 * MINUTE_MS },
];

const EXPIRED_STEPS: readonly Step[] = [
  { untilMs: 10 * MINUTE_MS, everyMs: MINUTE_MS, coveredEveryMs: 2 * MINUTE_MS },
  { untilMs: HOUR_MS, everyMs: 10 * MINUTE_MS, coveredEveryMs: 20 * MINUTE_MS },
  { untilMs: Number.POSITIVE_INFINITY, everyMs: 2 * HOUR_MS, coveredEveryMs: 4 * HOUR_MS },
];

/**
 * A mint signs within moments, and wallets read INFLIGHT as unpaid: look again at once. Days after the
 * payment it is more likely to be stuck, and others need the mint's requests.
 */
const INFLIGHT_STEPS: readonly Step[] = [
  { untilMs: DAY_MS, everyMs: 3 * SECOND_MS, coveredEveryMs: 3 * SECOND_MS },
  {
    untilMs: Number.POSITIVE_INFINITY,
    everyMs: 30 * SECOND_MS,
    coveredEveryMs: 30 * SECOND_MS,
  },
];

const PAID_STEPS: readonly Step[] = [
  { untilMs: 10 * MINUTE_MS, everyMs: 20 * SECOND_MS, coveredEveryMs: MINUTE_MS },
  { untilMs: HOUR_MS, everyMs: 5 * MINUTE_MS, coveredEveryMs: 15 * MINUTE_MS },
  { untilMs: DAY_MS, everyMs: HOUR_MS, coveredEveryMs: 2 * HOUR_MS },
  { untilMs: Number.POSITIVE_INFINITY, everyMs: 6 * HOUR_MS, coveredEveryMs: 12 * HOUR_MS },
];

/** What the schedule needs to know of a quote. All times in milliseconds since 1970. */
export interface ScheduledQuote {
  state: QuoteState;
  createdAtMs: number;
  expiresAtMs: number;
  /** When its payment was recorded; null before. */
  paidAtMs: number | null;
}

/**
 * When to ask the mint about a quote again, having just heard its state.
 *
 * @param isCovered whether a mint's socket reports this quote too; polling is sparser then, never off
 * @returns milliseconds since 1970, or null where the quote is not watched any longer
 */
export function nextCheckAtMs(
  quote: ScheduledQuote,
  nowMs: number,
  isCovered: boolean,
): number | null {
  switch (quote.state) {
    case 'UNPAID':
      return nextUnpaidCheck(quote, nowMs, isCovered);
    case 'INFLIGHT':
      return nextPaidCheck(INFLIGHT_STEPS, quote, nowMs, isCovered);
    case 'PAID':
      return nextPaidCheck(PAID_STEPS, quote, nowMs, isCovered);
    case 'ISSUED':
    case 'EXPIRED':
      return null;
  }
}

/**
 * Whether a quote that is still unpaid has had all the time that a late payment may take. Its making
 * counts too, by our own clock: an expiry in the past is a mint's mistake and must cost no payment.
 */
export function isPastGrace(
  quote: Pick<ScheduledQuote, 'createdAtMs' | 'expiresAtMs'>,
  nowMs: number,
): boolean {
  return nowMs >= Math.max(quote.expiresAtMs, quote.createdAtMs) + LATE_PAYMENT_GRACE_MS;
}

function nextUnpaidCheck(quote: ScheduledQuote, nowMs: number, isCovered: boolean): number {
  const ageMs = nowMs - quote.createdAtMs;
  const justAfterExpiryMs = quote.expiresAtMs + AFTER_EXPIRY_MS;
  if (nowMs < justAfterExpiryMs) {
    return Math.min(nowMs + intervalMs(UNPAID_STEPS, ageMs, isCovered), justAfterExpiryMs);
  }
  // A mint's clock may be wrong: a young quote is looked at often, whatever its expiry says.
  return ageMs < YOUNG_MS
    ? nowMs + intervalMs(UNPAID_STEPS, ageMs, isCovered)
    : nowMs + intervalMs(EXPIRED_STEPS, nowMs - quote.expiresAtMs, isCovered);
}

function nextPaidCheck(
  steps: readonly Step[],
  quote: ScheduledQuote,
  nowMs: number,
  isCovered: boolean,
): number | null {
  const ageMs = nowMs - (quote.paidAtMs ?? nowMs);
  return ageMs < COLLECTION_WATCH_MS ? nowMs + intervalMs(steps, ageMs, isCovered) : null;
}

function intervalMs(steps: readonly Step[], ageMs: number, isCovered: boolean): number {
  const step = steps.find((candidate) => ageMs < candidate.untilMs) ?? steps.at(-1);
  if (step === undefined) {
    throw new RangeError('a schedule needs at least one step');
  }
  return isCovered ? step.coveredEveryMs : step.everyMs;
}
