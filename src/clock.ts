/** Returns the time in milliseconds since 1970. */
export type Clock = () => number;

/** Converts milliseconds since 1970 to Unix seconds, which are the timestamps of the API. */
export function toUnixSeconds(ms: number): number {
  return Math.floor(ms / 1000);
}

/** Like {@link toUnixSeconds}; undefined, which JSON omits, without a time. */
export function toOptionalUnixSeconds(ms: number | null | undefined): number | undefined {
  return ms == null ? undefined : toUnixSeconds(ms);
}
