import { setTimeout as delay } from 'node:timers/promises';

/**
 * Settles with the promise (null: at once), but resolves after `maxMs` at the latest. The process does not exit
 * meanwhile, even if nothing else is left to do.
 */
export async function waitAtMost(maxMs: number, promise: Promise<unknown> | null): Promise<void> {
  const controller = new AbortController();
  try {
    await Promise.race([promise, delay(maxMs, undefined, { signal: controller.signal })]);
  } finally {
    controller.abort();
  }
}
