import { setTimeout as delay } from 'node:timers/promises';

/**
 * Settles like the promise (null: at once), but resolves to null after `maxMs` at the latest. The process does not exit
 * meanwhile, even if nothing else is left to do.
 */
export async function waitAtMost<Result>(
  maxMs: number,
  promise: Promise<Result> | null,
): Promise<Result | null> {
  const controller = new AbortController();
  try {
    return await Promise.race([promise, delay(maxMs, null, { signal: controller.signal })]);
  } finally {
    controller.abort();
  }
}
