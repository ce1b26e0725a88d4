/** Returns the time in milliseconds since 1970; tests pass their own. */
export type Clock = () => number;

/** Unix seconds, floored, as in all timestamps of the API. */
export function toUnixSeconds(ms: number): number {
  return Math.floor(ms / 1000);
}
