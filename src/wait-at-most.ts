import { setTimeout as delay } from 'node:timers/promises';

/** Settles with the promise (null: at once), but resolves after `maxMs` at the latest. Keeps the process running. */
export async function waitAtMost(maxMs: number, promise: Promise<unknown> | null): Promise<void> {
  const timeout = new AbortController();
  try {
    await Promise.race([promise, delay(maxMs, undefined, timeout)]);
  } finally {
    timeout.abort();
  }
}
