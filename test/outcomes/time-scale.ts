import { setTimeout as delay } from 'node:timers/promises';
import { RATE_LIMITER_TIMING, type RateLimiterTiming } from '../../src/mints/route-rate-limiter.ts';
import type { ServiceOverrides } from '../../src/service.ts';
import { MIN_POLL_INTERVAL_MS } from '../../src/watcher/quote-poller.ts';
import { SCAN_INTERVAL_MS } from '../../src/watcher/quote-watcher.ts';

/** Time that a burst of requests takes to reach a mint, independent of the speed. */
const LATENCY_MS = 100;

/**
 * Runs load, mints and the rate limiter faster than real time. All numbers are unscaled seconds.
 * The polling schedule and the clock are not scaled.
 */
export interface TimeScale {
  nowSeconds(): number;
  /** Converts a `performance.now()` timestamp. */
  toSeconds(monotonicMs: number): number;
  sleepSeconds(seconds: number): Promise<void>;
  /** Time that a burst of requests may take to reach a mint; not scaled. */
  latencySeconds: number;
  /** Real duration of a mint's one-minute window. */
  mintWindowMs: number;
  serviceOverrides: ServiceOverrides;
}

export const TEN_TIMES_FASTER = createTimeScale(10);

export const REAL_TIME = createTimeScale(1);

function createTimeScale(speed: number): TimeScale {
  const toSeconds = (monotonicMs: number) => (monotonicMs * speed) / 1_000;
  const scaled = Object.entries(RATE_LIMITER_TIMING).map(([name, ms]) => [name, ms / speed]);
  const mintTiming = Object.fromEntries(scaled) as unknown as RateLimiterTiming;
  // The limiter's window exceeds a minute by one second to cover latency, which does not scale.
  mintTiming.windowMs += LATENCY_MS * (1 - 1 / speed);
  return {
    nowSeconds: () => toSeconds(performance.now()),
    toSeconds,
    sleepSeconds: (seconds) => delay((seconds * 1_000) / speed),
    latencySeconds: toSeconds(LATENCY_MS),
    mintWindowMs: 60_000 / speed,
    serviceOverrides: {
      mintLimiterTiming: mintTiming,
      pollIntervalMs: MIN_POLL_INTERVAL_MS / speed,
      scanIntervalMs: SCAN_INTERVAL_MS / speed,
    },
  };
}
