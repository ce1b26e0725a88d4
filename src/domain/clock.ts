/** Where the time comes from: the system in production, the test's hand in a test. Milliseconds since 1970. */
export type Clock = () => number;

/** Unix seconds, floored, as every timestamp of the API is given. */
export function toUnixSeconds(ms: number): number {
  return Math.floor(ms / 1000);
}
