/** How far a payment's time may run ahead of the clock: wallets stall on one further in the future. */
const MAX_AHEAD_MS = 5_000;

/** Wallets keep `paidAt`, in whole seconds, as a watermark: two payments should not share a second. */
const SPACING_MS = 1_000;

/**
 * The `paidAt` of a recipient's next payment.
 *
 * It is the time at which we record it, at least a second after the recipient's previous one while
 * that stays within {@link MAX_AHEAD_MS} of the clock. Past that bound it still strictly increases,
 * because the list's order and `since` rely on it.
 *
 * @param lastPaidAtMs the recipient's newest `paidAt`, null before the first payment
 * @returns milliseconds since 1970
 */
export function nextPaidAtMs(lastPaidAtMs: number | null, nowMs: number): number {
  if (lastPaidAtMs === null) {
    return nowMs;
  }
  const spaced = Math.max(nowMs, lastPaidAtMs + SPACING_MS);
  return Math.max(Math.min(spaced, nowMs + MAX_AHEAD_MS), lastPaidAtMs + 1);
}

/**
 * The date of a zap's receipt: its payment's `paidAt`, but never further ahead of the clock than a
 * `paidAt` usually runs. After a clock was set back that is behind the `paidAt`, and relays refuse for
 * good what is dated in the future.
 *
 * @returns milliseconds since 1970
 */
export function receiptDateMs(paidAtMs: number, nowMs: number): number {
  return Math.min(paidAtMs, nowMs + MAX_AHEAD_MS);
}
