import { setTimeout as delay } from 'node:timers/promises';
import { MINT_LIMITER_TIMING, type MintLimiterTiming } from '../../src/mint/route-limit.ts';
import type { Surroundings } from '../../src/service.ts';
import { POLL_GAP_MS } from '../../src/watcher/quote-poller.ts';
import { SCAN_INTERVAL_MS } from '../../src/watcher/quote-watcher.ts';

/**
 * Lets demand, mints and the rate limiter run faster than real time. Its numbers are unscaled seconds. The
 * polling schedule and the clock stay in real time.
 */
export interface TimeScale {
  /** Seconds that have passed. */
  now(): number;
  /** Converts a time of `performance.now()`. */
  toSeconds(monotonicMs: number): number;
  sleep(seconds: number): Promise<void>;
  /** How long a mint's minute lasts. */
  mintWindowMs: number;
  /** What makes a service run at this speed. */
  surroundings: Surroundings;
}

/** Ten minutes take one. */
export const TEN_TIMES_FASTER = timeScale(10);

/** For what takes a minute at most, with the timing of a real service. */
export const REAL_TIME = timeScale(1);

function timeScale(speed: number): TimeScale {
  const toSeconds = (monotonicMs: number) => (monotonicMs * speed) / 1_000;
  const timings = Object.entries(MINT_LIMITER_TIMING).map(([name, ms]) => [name, ms / speed]);
  return {
    now: () => toSeconds(performance.now()),
    toSeconds,
    sleep: (seconds) => delay((seconds * 1_000) / speed),
    mintWindowMs: 60_000 / speed,
    surroundings: {
      mintTiming: Object.fromEntries(timings) as unknown as MintLimiterTiming,
      pollGapMs: POLL_GAP_MS / speed,
      scanIntervalMs: SCAN_INTERVAL_MS / speed,
    },
  };
}
