import type { ObservedState } from './quote.ts';

/** What a mint's answer says of a quote's progress (NUT-04, NUT-23); older mints give `state` alone. */
export interface ReportedProgress {
  state?: string | undefined;
  /** Sats. */
  amountPaid?: number | undefined;
  /** Sats. */
  amountIssued?: number | undefined;
}

/**
 * The state that a mint's answer amounts to.
 *
 * `PENDING` comes first: a mint says it while it signs, with its amounts not yet counted, and it
 * never means unpaid. Then the amounts, for which NUT-04 gave up `state`; then `state` itself.
 *
 * @returns null where the answer says nothing that we know
 */
export function observedState(reported: ReportedProgress): ObservedState | null {
  const { state, amountPaid, amountIssued } = reported;
  if (state === 'PENDING') {
    return 'INFLIGHT';
  }
  const hasAmounts = amountPaid !== undefined && amountIssued !== undefined;
  if (hasAmounts && amountPaid > amountIssued) {
    return 'PAID';
  }
  if (hasAmounts && amountPaid === amountIssued && amountPaid > 0) {
    return 'ISSUED';
  }
  if (state === 'UNPAID' || state === 'PAID' || state === 'ISSUED') {
    return state;
  }
  return state === undefined && hasAmounts && amountPaid === amountIssued ? 'UNPAID' : null;
}
