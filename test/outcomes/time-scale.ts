import { setTimeout as delay } from 'node:timers/promises';
import { RATE_LIMITER_TIMING, type RateLimiterTiming } from '../../src/mints/limits.ts';
import type { ServiceOverrides } from '../../src/service.ts';
import { MIN_POLL_INTERVAL_MS, SCAN_INTERVAL_MS } from '../../src/watcher/limits.ts';

/** The real time that a burst of requests takes to reach a mint. */
const LATENCY_MS = 100;

/**
 * Accelerates payers, mints and the rate limiter: at speed 10, six real seconds are a simulated minute. The polling
 * schedule and the wall clock keep their real speed. All durations are simulated unless a comment says otherwise.
 */
export interface TimeScale {
  /** Returns the current time on the same clock as {@link toSeconds}. */
  nowSeconds(): number;
  /** Converts a `performance.now()` timestamp to simulated seconds. */
  toSeconds(monotonicMs: number): number;
  sleepSeconds(seconds: number): Promise<void>;
  /** How long a burst of requests may take to reach a mint. A higher speed makes this longer. */
  latencySeconds: number;
  /** The length of a mint's one-minute window in real milliseconds. */
  mintWindowMs: number;
  serviceOverrides: ServiceOverrides;
}

export const TEN_TIMES_FASTER = createTimeScale(10);

export const REAL_TIME = createTimeScale(1);

function createTimeScale(speed: number): TimeScale {
  const toSeconds = (monotonicMs: number) => (monotonicMs * speed) / 1_000;
  const { backoff, ...timing } = RATE_LIMITER_TIMING;
  const scale = <T extends object>(durations: T): T =>
    Object.fromEntries(Object.entries(durations).map(([name, ms]) => [name, ms / speed])) as T;
  const mintLimiterTiming: RateLimiterTiming = { ...scale(timing), backoff: scale(backoff) };
  // The limiter's window is a minute and a second of latency. The latency is not accelerated.
  mintLimiterTiming.windowMs += LATENCY_MS * (1 - 1 / speed);
  return {
    nowSeconds: () => toSeconds(performance.now()),
    toSeconds,
    sleepSeconds: (seconds) => delay((seconds * 1_000) / speed),
    latencySeconds: toSeconds(LATENCY_MS),
    mintWindowMs: 60_000 / speed,
    serviceOverrides: {
      mintLimiterTiming,
      pollIntervalMs: MIN_POLL_INTERVAL_MS / speed,
      scanIntervalMs: SCAN_INTERVAL_MS / speed,
    },
  };
}
