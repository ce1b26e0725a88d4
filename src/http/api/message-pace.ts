/**
 * A client may be so far ahead of its pace: a wallet that wakes up, or a proxy that held messages back,
 * sends those of some seconds at once.
 */
export const MESSAGE_BURST_SECONDS = 2;

/**
 * Counts one message against a pace, as a token bucket that is kept in a single number (the generic cell
 * rate algorithm): each message is due one interval after the one before.
 *
 * @param dueMs what this function gave for the message before; 0 for the first one
 * @param nowMs on a clock that never goes back
 * @returns for the next message; null where this one is too many
 */
export function takeMessage(
  dueMs: number,
  nowMs: number,
  messagesPerSecond: number,
): number | null {
  const intervalMs = 1000 / messagesPerSecond;
  const startMs = Math.max(dueMs, nowMs);
  // Half an interval of grace, or rounding would decide about the last message of a burst.
  const isTooMany = startMs - nowMs > MESSAGE_BURST_SECONDS * 1000 - intervalMs / 2;
  return isTooMany ? null : startMs + intervalMs;
}
