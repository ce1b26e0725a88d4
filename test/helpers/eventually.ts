import { vi } from 'vitest';

/** Far longer than anything takes that a test waits for; only one that fails waits for so long. */
const PATIENCE_MS = 90_000;

const INTERVAL_MS = 20;

/** Looks again and again until `holds` throws no more. @returns what it returned then */
export function eventually<T>(holds: () => T): Promise<Awaited<T>> {
  return vi.waitFor(holds, { timeout: PATIENCE_MS, interval: INTERVAL_MS }) as Promise<Awaited<T>>;
}
