import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { measureSlowness } from '../../helpers/machine-slowness.ts';

/** No input may block the event loop of a usual machine for longer (docs/security.md). */
const MAX_EVENT_LOOP_DELAY_MS = 10;

/** Compiling code, garbage collections and other load on the machine can only increase a delay. */
const MAX_ATTEMPTS = 20;

const ATTEMPTS_BEFORE_MEASURING = 3;

const PAUSE_MS = 50;

/**
 * Expects that one of several attempts has no long delay. The time in which the process waited for a processor does not
 * count, and a slow machine has more time.
 */
export async function expectShortDelay(
  measureDelayMs: () => Promise<number>,
  pid: number = process.pid,
  prepareAttempt: () => Promise<void> = async () => undefined,
): Promise<void> {
  let maxDelayMs = MAX_EVENT_LOOP_DELAY_MS;
  let shortestDelayMs = Number.POSITIVE_INFINITY;
  for (let attempt = 1; attempt <= MAX_ATTEMPTS && shortestDelayMs >= maxDelayMs; attempt++) {
    await delay(attempt === 1 ? 0 : PAUSE_MS);
    await prepareAttempt();
    const waitedBeforeMs = await readWaitingMs(pid);
    const delayMs = await measureDelayMs();
    const waitedMs = (await readWaitingMs(pid)) - waitedBeforeMs;
    shortestDelayMs = Math.min(shortestDelayMs, delayMs - waitedMs);
    if (attempt % ATTEMPTS_BEFORE_MEASURING === 0) {
      maxDelayMs = MAX_EVENT_LOOP_DELAY_MS * measureSlowness();
    }
  }
  expect(shortestDelayMs).toBeLessThan(maxDelayMs);
}

/** Returns how long a process has waited for a processor; 0 if the operating system does not report it. */
async function readWaitingMs(pid: number): Promise<number> {
  const statistics = await readFile(`/proc/${pid}/schedstat`, 'utf8').catch(() => '');
  return Number(statistics.split(' ')[1] ?? 0) / 1e6;
}
