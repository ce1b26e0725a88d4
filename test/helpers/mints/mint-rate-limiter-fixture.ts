import {
  type AcquireResult,
  type FinishedMintRequest,
  type MintPermit,
  MintRateLimiter,
  type MintRateLimiterDeps,
} from '../../../src/mints/mint-rate-limiter.ts';
import type { RateLimiterTiming } from '../../../src/mints/route-rate-limiter.ts';

/** Stores the rate limits that mints have reported, in memory instead of the database. */
export class FakeRateLimitStore {
  /** For each mint URL, its rate limits by route. */
  readonly limits = new Map<string, object>();
  /** If true, loading and saving fail. */
  isUnavailable = false;

  async loadRateLimits(mintUrl: string): Promise<unknown> {
    this.#throwIfUnavailable();
    return this.limits.get(mintUrl) ?? null;
  }

  async saveRateLimit(mintUrl: string, route: string, limit: object | null): Promise<void> {
    this.#throwIfUnavailable();
    const limitsByRoute = { ...this.limits.get(mintUrl), [route]: limit };
    const knownLimits = Object.entries(limitsByRoute).filter(([, each]) => each !== null);
    this.limits.set(mintUrl, Object.fromEntries(knownLimits));
  }

  #throwIfUnavailable(): void {
    if (this.isUnavailable) {
      throw new Error('the database is unavailable');
    }
  }
}

/** Creates a limiter that works without a database. @returns also its finished requests and its log entries */
export function createTestMintRateLimiter(
  options: { store?: FakeRateLimitStore; timing?: Partial<RateLimiterTiming> } = {},
) {
  const { store = new FakeRateLimitStore(), timing = {} } = options;
  const finishedRequests: FinishedMintRequest[] = [];
  const logEntries: Record<string, unknown>[] = [];
  const captureLogEntry = (fields: Record<string, unknown>) => logEntries.push(fields);
  const limiter = new MintRateLimiter({
    store,
    monotonicMs: () => performance.now(),
    timing,
    onRequestFinished: (request) => finishedRequests.push(request),
    log: { info: captureLogEntry, warn: captureLogEntry } as unknown as MintRateLimiterDeps['log'],
  });
  return { limiter, finishedRequests, logEntries };
}

/** @throws if the limiter rejected the request */
export function expectGranted(result: AcquireResult): MintPermit {
  if (result.outcome !== 'granted') {
    throw new Error(`the limiter rejected the request: retry after ${result.retryAfterMs} ms`);
  }
  return result.permit;
}
