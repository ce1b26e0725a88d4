import { randomInt } from 'node:crypto';

/** 100,000 requests and socket messages, unless `STORM_REQUESTS` says how many. */
const USUAL_REQUESTS = 100_000;

/** What a storm is rolled from, and how long it is. */
export interface StormSettings {
  /** With the same seed, the same requests come again. */
  seed: string;
  /** Requests and socket messages. */
  requestCount: number;
}

/**
 * Reads `STORM_SEED` and `STORM_REQUESTS`; without a seed, one is drawn.
 *
 * @throws Error where the count is none
 */
export function stormSettings(): StormSettings {
  const { STORM_SEED: seed, STORM_REQUESTS: count } = process.env;
  const requestCount = Number(count ?? USUAL_REQUESTS);
  if (!Number.isSafeInteger(requestCount) || requestCount < 1) {
    throw new Error(`STORM_REQUESTS: '${count}' is no number of requests`);
  }
  return { seed: seed ?? String(randomInt(1_000_000_000)), requestCount };
}
