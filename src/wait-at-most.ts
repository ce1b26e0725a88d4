import { setTimeout as delay } from 'node:timers/promises';

/** Resolves when the promise does, but after `maxMs` at the latest. */
export async function waitAtMost(maxMs: number, promise: Promise<unknown> | null): Promise<void> {
  await Promise.race([promise, delay(maxMs, undefined, { ref: false })]);
}
