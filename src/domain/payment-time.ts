/** How far a payment's time may run ahead of the clock: wallets stall on one further in the future. */
const MAX_AHEAD_MS = 5_000;

/** Wallets keep `paidAt`, in whole seconds, as a watermark: two payments should not share a second. */
const SPACING_MS = 1_000;

/**
 * Returns the `paidAt` of a recipient's next payment: now, but at least a second after the previous one if that is within
 * {@link MAX_AHEAD_MS} of the clock. Beyond that it still strictly increases, because the list's order and `since` rely on
 * it.
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
 * Returns the date of a zap's receipt: its payment's `paidAt`, limited to {@link MAX_AHEAD_MS} ahead of a clock that was
 * set back, because relays reject events of the future for good.
 *
 * @returns milliseconds since 1970
 */
export function receiptDateMs(paidAtMs: number, nowMs: number): number {
  return Math.min(paidAtMs, nowMs + MAX_AHEAD_MS);
}
