import { setTimeout as delay } from 'node:timers/promises';
import { MINT_LIMITER_TIMING, type MintLimiterTiming } from '../../src/mint/route-limit.ts';
import type { Surroundings } from '../../src/service.ts';

/** The service's own intervals, which scale with the limiter's. */
const SCAN_INTERVAL_MS = 1_000;
const POLL_GAP_MS = 4_000;

/** Runs a service and its mints faster than real time. All its numbers are unscaled seconds. */
export interface TimeScale {
  /** Seconds that have passed. */
  now(): number;
  /** Converts a time of `performance.now()`. */
  toSeconds(monotonicMs: number): number;
  sleep(seconds: number): Promise<void>;
  /** Wall clock of a mint. */
  clock: () => number;
  /** What makes a service run at this speed. */
  surroundings: Surroundings;
}

/** Ten minutes take one. */
export const TEN_TIMES_FASTER = timeScale(10);

/** For what takes a minute at most, with the timing of a real service. */
export const REAL_TIME = timeScale(1);

function timeScale(speed: number): TimeScale {
  const toSeconds = (monotonicMs: number) => (monotonicMs * speed) / 1_000;
  const clock = () => performance.timeOrigin + performance.now() * speed;
  const timings = Object.entries(MINT_LIMITER_TIMING).map(([name, ms]) => [name, ms / speed]);
  return {
    now: () => toSeconds(performance.now()),
    toSeconds,
    sleep: (seconds) => delay((seconds * 1_000) / speed),
    clock,
    surroundings: {
      clock,
      mintTiming: Object.fromEntries(timings) as unknown as MintLimiterTiming,
      scanIntervalMs: SCAN_INTERVAL_MS / speed,
      pollGapMs: POLL_GAP_MS / speed,
    },
  };
}
