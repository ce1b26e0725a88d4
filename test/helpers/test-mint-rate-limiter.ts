import {
  type AcquireResult,
  type FinishedMintRequest,
  type MintPermit,
  MintRateLimiter,
  type MintRateLimiterDeps,
} from '../../src/mints/mint-rate-limiter.ts';
import type { RateLimiterTiming } from '../../src/mints/route-rate-limiter.ts';

/** Stores the rate limits of mints in memory. */
export class FakeRateLimitStore {
  readonly limits = new Map<string, object>();
  isUnavailable = false;

  async loadRateLimits(mintUrl: string): Promise<unknown> {
    this.#throwIfUnavailable();
    return this.limits.get(mintUrl) ?? null;
  }

  async saveRateLimit(mintUrl: string, route: string, limit: object | null): Promise<void> {
    this.#throwIfUnavailable();
    const limits = { ...this.limits.get(mintUrl), [route]: limit };
    const known = Object.entries(limits).filter(([, each]) => each !== null);
    this.limits.set(mintUrl, Object.fromEntries(known));
  }

  #throwIfUnavailable(): void {
    if (this.isUnavailable) {
      throw new Error('the database is unavailable');
    }
  }
}

/** Creates a limiter without a database, and captures its log and finished requests. */
export function createTestRateLimiter(
  options: { store?: FakeRateLimitStore; timing?: Partial<RateLimiterTiming> } = {},
) {
  const { store = new FakeRateLimitStore(), timing = {} } = options;
  const finished: FinishedMintRequest[] = [];
  const logged: Record<string, unknown>[] = [];
  const write = (fields: Record<string, unknown>) => logged.push(fields);
  const limiter = new MintRateLimiter({
    store,
    monotonicMs: () => performance.now(),
    timing,
    onRequestFinished: (request) => finished.push(request),
    log: { info: write, warn: write } as unknown as MintRateLimiterDeps['log'],
  });
  return { limiter, finished, logged };
}

export function expectGranted(acquired: AcquireResult): MintPermit {
  if (acquired.outcome !== 'granted') {
    throw new Error(`no permit for ${acquired.retryAfterMs} ms`);
  }
  return acquired.permit;
}
