import type { QuoteState } from './quote.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** Lightning can settle late and backends answer late: so long after expiry a payment is waited for. */
const LATE_PAYMENT_GRACE_MS = DAY_MS;

/** A paid quote that was not collected in this time is no longer asked about. */
const COLLECTION_WATCH_MS = 7 * DAY_MS;

/**
 * Nothing is given up at the first look after its time, but at one so much later: our clock may have
 * jumped ahead, or the mint's backend may have only just woken up.
 */
const SECOND_LOOK_AFTER_MS = HOUR_MS;

/** The one look just after expiry, when a payment in the last second has had time to settle. */
const AFTER_EXPIRY_MS = 5 * SECOND_MS;

/** Most invoices are paid, and most payments collected, in this time or never. */
const YOUNG_MS = 10 * MINUTE_MS;

/** Where a mint's requests do not suffice for all that is due, the lower class goes first. */
export const CHECK_CLASS = {
  /** Somebody is waiting: a payment in flight, or an invoice that was just handed out. */
  soon: 0,
  /** Invoices that can still be paid or have just ended, and payments that were just made. */
  next: 1,
  /** All else: old invoices and payments that nobody collected. */
  rarely: 2,
} as const;

export type CheckClass = (typeof CHECK_CLASS)[keyof typeof CHECK_CLASS];

/** When to ask about a quote again, and how it stands among others that are due. */
export interface NextCheck {
  /** Milliseconds since 1970. */
  atMs: number;
  checkClass: CheckClass;
}

/**
 * How soon a quote of a class is to be asked about once the socket that reported it is gone: what was
 * planned to be sparse in reliance on it comes within this time.
 */
export const UNCOVERED_WITHIN_MS: Readonly<Record<CheckClass, number>> = {
  [CHECK_CLASS.soon]: 4 * SECOND_MS,
  [CHECK_CLASS.next]: MINUTE_MS,
  [CHECK_CLASS.rarely]: 2 * HOUR_MS,
};

/**
 * Nothing of a class is ever planned further ahead. What is nevertheless was planned by a clock that was
 * ahead.
 */
export const LONGEST_PLAN_MS: Readonly<Record<CheckClass, number>> = {
  [CHECK_CLASS.soon]: MINUTE_MS,
  [CHECK_CLASS.next]: 30 * MINUTE_MS,
  [CHECK_CLASS.rarely]: 12 * HOUR_MS,
};

/**
 * What was made or paid so far in the future has no age that could be known: it is looked at as often as
 * what is an hour old.
 */
const AHEAD_MS = MINUTE_MS;

/** While younger than `untilMs`, look again after `everyMs`; sparser where a socket tells as well. */
interface Step {
  untilMs: number;
  everyMs: number;
  coveredEveryMs: number;
  checkClass: CheckClass;
}

const { soon, next, rarely } = CHECK_CLASS;

const UNPAID_STEPS: readonly Step[] = [
  step(MINUTE_MS, 4 * SECOND_MS, 20 * SECOND_MS, soon),
  step(YOUNG_MS, 15 * SECOND_MS, MINUTE_MS, soon),
  step(HOUR_MS, MINUTE_MS, 5 * MINUTE_MS, next),
  step(DAY_MS, 10 * MINUTE_MS, 30 * MINUTE_MS, next),
  step(Number.POSITIVE_INFINITY, 2 * HOUR_MS, 4 * HOUR_MS, rarely),
];

const EXPIRED_STEPS: readonly Step[] = [
  step(10 * MINUTE_MS, MINUTE_MS, 2 * MINUTE_MS, next),
  step(HOUR_MS, 10 * MINUTE_MS, 20 * MINUTE_MS, next),
  step(Number.POSITIVE_INFINITY, 2 * HOUR_MS, 4 * HOUR_MS, rarely),
];

/**
 * A mint signs within moments, and wallets read INFLIGHT as unpaid: look again at once. Days after the
 * payment it is more likely to be stuck, and others need the mint's requests.
 */
const INFLIGHT_STEPS: readonly Step[] = [
  step(DAY_MS, 3 * SECOND_MS, 3 * SECOND_MS, soon),
  step(Number.POSITIVE_INFINITY, 30 * SECOND_MS, 30 * SECOND_MS, rarely),
];

/** While wallets collect, that is to be seen within a minute, whatever a socket says or does not say. */
const PAID_STEPS: readonly Step[] = [
  step(YOUNG_MS, 20 * SECOND_MS, 45 * SECOND_MS, next),
  step(HOUR_MS, 5 * MINUTE_MS, 15 * MINUTE_MS, rarely),
  step(DAY_MS, HOUR_MS, 2 * HOUR_MS, rarely),
  step(Number.POSITIVE_INFINITY, 6 * HOUR_MS, 12 * HOUR_MS, rarely),
];

/** What the schedule needs to know of a quote. All times in milliseconds since 1970. */
export interface ScheduledQuote {
  state: QuoteState;
  createdAtMs: number;
  expiresAtMs: number;
  /** When its payment was recorded; null before. */
  paidAtMs: number | null;
  /** When its mint answered for it the last time before now; null where it never did. */
  checkedAtMs: number | null;
}

/**
 * When to ask the mint about a quote again, having just heard its state.
 *
 * @param isCovered whether a mint's socket reports this quote too; polling is sparser then, never off
 * @returns null where the quote is not watched any longer
 */
export function nextCheck(
  quote: ScheduledQuote,
  nowMs: number,
  isCovered: boolean,
): NextCheck | null {
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

/** When a quote that was just made is asked about first, before any socket can cover it. */
export function firstCheck(quote: Pick<ScheduledQuote, 'createdAtMs' | 'expiresAtMs'>): NextCheck {
  const unpaid = { ...quote, state: 'UNPAID', paidAtMs: null, checkedAtMs: null } as const;
  return nextUnpaidCheck(unpaid, quote.createdAtMs, false);
}

/**
 * Whether a quote that is still unpaid has had all the time that a late payment may take. Its making
 * counts too, by our own clock: an expiry in the past is a mint's mistake and must cost no payment.
 */
export function isPastGrace(
  quote: Pick<ScheduledQuote, 'createdAtMs' | 'expiresAtMs' | 'checkedAtMs'>,
  nowMs: number,
): boolean {
  return isOver(latePaymentUntilMs(quote), quote.checkedAtMs, nowMs);
}

/** Until when at least an unpaid quote is asked about (milliseconds since 1970). */
export function latePaymentUntilMs(
  quote: Pick<ScheduledQuote, 'createdAtMs' | 'expiresAtMs'>,
): number {
  return Math.max(quote.expiresAtMs, quote.createdAtMs) + LATE_PAYMENT_GRACE_MS;
}

/** Until when at least a paid quote is asked about, where nobody collects it; as its argument. */
export function collectionWatchedUntilMs(paidAtMs: number): number {
  return paidAtMs + COLLECTION_WATCH_MS;
}

function nextUnpaidCheck(quote: ScheduledQuote, nowMs: number, isCovered: boolean): NextCheck {
  const ageMs = nowMs - quote.createdAtMs;
  const justAfterExpiryMs = quote.expiresAtMs + AFTER_EXPIRY_MS;
  if (nowMs < justAfterExpiryMs) {
    const check = checkByAge(UNPAID_STEPS, ageMs, nowMs, isCovered);
    return { ...check, atMs: Math.min(check.atMs, justAfterExpiryMs) };
  }
  // A mint's clock may be wrong: a young quote is looked at often, whatever its expiry says.
  return ageMs < YOUNG_MS
    ? checkByAge(UNPAID_STEPS, ageMs, nowMs, isCovered)
    : checkByAge(EXPIRED_STEPS, nowMs - quote.expiresAtMs, nowMs, isCovered);
}

function nextPaidCheck(
  steps: readonly Step[],
  quote: ScheduledQuote,
  nowMs: number,
  isCovered: boolean,
): NextCheck | null {
  const paidAtMs = quote.paidAtMs ?? nowMs;
  return isOver(collectionWatchedUntilMs(paidAtMs), quote.checkedAtMs, nowMs)
    ? null
    : checkByAge(steps, nowMs - paidAtMs, nowMs, isCovered);
}

function isOver(endMs: number, checkedAtMs: number | null, nowMs: number): boolean {
  return (
    checkedAtMs !== null && checkedAtMs >= endMs && nowMs >= checkedAtMs + SECOND_LOOK_AFTER_MS
  );
}

function checkByAge(
  steps: readonly Step[],
  ageMs: number,
  nowMs: number,
  isCovered: boolean,
): NextCheck {
  const knownAgeMs = ageMs < -AHEAD_MS ? HOUR_MS - 1 : ageMs;
  const current = steps.find((candidate) => knownAgeMs < candidate.untilMs) ?? steps.at(-1);
  if (current === undefined) {
    throw new RangeError('a schedule needs at least one step');
  }
  const intervalMs = isCovered ? current.coveredEveryMs : current.everyMs;
  return { atMs: nowMs + intervalMs, checkClass: current.checkClass };
}

function step(
  untilMs: number,
  everyMs: number,
  coveredEveryMs: number,
  checkClass: CheckClass,
): Step {
  return { untilMs, everyMs, coveredEveryMs, checkClass };
}
