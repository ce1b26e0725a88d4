import { setTimeout as delay } from 'node:timers/promises';
import { MINT_LIMITER_TIMING, type MintLimiterTiming } from '../../src/mints/route-limit.ts';
import type { Surroundings } from '../../src/service.ts';
import { POLL_GAP_MS } from '../../src/watcher/quote-poller.ts';
import { SCAN_INTERVAL_MS } from '../../src/watcher/quote-watcher.ts';

/** What a burst of requests takes to reach a mint at any speed. */
const LATENCY_MS = 100;

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
  /** What a burst of requests may take to reach a mint. It does not scale. */
  latency: number;
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
  const scaled = Object.entries(MINT_LIMITER_TIMING).map(([name, ms]) => [name, ms / speed]);
  const mintTiming = Object.fromEntries(scaled) as unknown as MintLimiterTiming;
  // The second by which the limiter's window exceeds a minute is to cover latency, which does not scale.
  mintTiming.windowMs += LATENCY_MS * (1 - 1 / speed);
  return {
    now: () => toSeconds(performance.now()),
    toSeconds,
    sleep: (seconds) => delay((seconds * 1_000) / speed),
    latency: toSeconds(LATENCY_MS),
    mintWindowMs: 60_000 / speed,
    surroundings: {
      mintTiming,
      pollGapMs: POLL_GAP_MS / speed,
      scanIntervalMs: SCAN_INTERVAL_MS / speed,
    },
  };
}
