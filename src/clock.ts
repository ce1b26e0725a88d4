/** Returns the time in milliseconds since 1970. */
export type Clock = () => number;

/** Converts milliseconds since 1970 to Unix seconds, which are the timestamps of the API. */
export function toUnixSeconds(ms: number): number {
  return Math.floor(ms / 1000);
}
