import type { ObservedState } from './quote.ts';

/** The fields of a mint's answer that describe a quote's progress (NUT-04, NUT-23). Older mints send only `state`. */
export interface ReportedProgress {
  state?: string | undefined;
  /** Sats. */
  amountPaid?: number | undefined;
  /** Sats. */
  amountIssued?: number | undefined;
}

/**
 * Derives the state of a quote from a mint's answer.
 *
 * `PENDING` comes first: a mint reports it while it signs, before it updates the amounts. The amounts come
 * next, because NUT-04 deprecates `state` in favour of them.
 *
 * @returns null if the state is unknown
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
