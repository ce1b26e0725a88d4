import { setTimeout as delay } from 'node:timers/promises';

/** Resolves when the promise does, but after `maxMs` at the latest. Keeps the process running meanwhile. */
export async function waitAtMost(maxMs: number, promise: Promise<unknown> | null): Promise<void> {
  const timeout = new AbortController();
  try {
    await Promise.race([promise, delay(maxMs, undefined, timeout)]);
  } finally {
    timeout.abort();
  }
}
