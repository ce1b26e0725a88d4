import { vi } from 'vitest';

/** Far longer than anything that a test waits for; only a failing test waits this long. */
const MAX_WAIT_MS = 90_000;

const RETRY_INTERVAL_MS = 20;

/** Retries until `assertion` no longer throws, and returns its result. */
export function eventually<T>(assertion: () => T): Promise<Awaited<T>> {
  return vi.waitFor(assertion, { timeout: MAX_WAIT_MS, interval: RETRY_INTERVAL_MS }) as Promise<
    Awaited<T>
  >;
}
