import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { measureSlowness } from '../../helpers/machine-slowness.ts';

/** No input may block the event loop of a usual machine for longer (docs/security.md). */
const MAX_EVENT_LOOP_DELAY_MS = 10;

/** Compiling code, garbage collections and other load on the machine can only increase a delay. */
const MAX_ATTEMPTS = 20;

const PAUSE_MS = 50;

/**
 * Expects that one of several attempts has no long delay. On a busy or slow machine, no attempt may succeed. Then the time
 * in which the process waited for a processor does not count, and a slow machine has more time.
 */
export async function expectShortDelay(
  measureDelayMs: () => Promise<number>,
  pid: number = process.pid,
  prepareAttempt: () => Promise<void> = async () => undefined,
): Promise<void> {
  let delayMs = Number.POSITIVE_INFINITY;
  let delayWithoutWaitingMs = Number.POSITIVE_INFINITY;
  for (let attempt = 1; attempt <= MAX_ATTEMPTS && delayMs >= MAX_EVENT_LOOP_DELAY_MS; attempt++) {
    await delay(attempt === 1 ? 0 : PAUSE_MS);
    await prepareAttempt();
    const waitedBeforeMs = await readWaitingMs(pid);
    delayMs = await measureDelayMs();
    const waitedMs = (await readWaitingMs(pid)) - waitedBeforeMs;
    delayWithoutWaitingMs = Math.min(delayWithoutWaitingMs, delayMs - waitedMs);
  }
  if (delayMs >= MAX_EVENT_LOOP_DELAY_MS) {
    expect(delayWithoutWaitingMs).toBeLessThan(MAX_EVENT_LOOP_DELAY_MS * measureSlowness());
  }
}

/** Returns how long a process has waited for a processor; 0 if the operating system does not report it. */
async function readWaitingMs(pid: number): Promise<number> {
  const statistics = await readFile(`/proc/${pid}/schedstat`, 'utf8').catch(() => '');
  return Number(statistics.split(' ')[1] ?? 0) / 1e6;
}
