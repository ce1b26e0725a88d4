/** Returns the time in milliseconds since 1970. */
export type Clock = () => number;

/** Converts to Unix seconds, rounded down, as in all timestamps of the API. */
export function toUnixSeconds(ms: number): number {
  return Math.floor(ms / 1000);
}
