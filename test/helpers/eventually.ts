import { vi } from 'vitest';

/** Longer than anything that a test waits for, so only a failing test waits this long. */
const TIMEOUT_MS = 90_000;

const RETRY_INTERVAL_MS = 20;

export function eventually<T>(assertion: () => T): Promise<Awaited<T>> {
  return vi.waitFor(assertion, { timeout: TIMEOUT_MS, interval: RETRY_INTERVAL_MS }) as Promise<
    Awaited<T>
  >;
}
