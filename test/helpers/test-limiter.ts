import {
  type Acquired,
  type FinishedRequest,
  type MintPermit,
  MintRateLimiter,
  type MintRateLimiterParts,
} from '../../src/mints/mint-rate-limiter.ts';
import type { MintLimiterTiming } from '../../src/mints/route-limit.ts';

/** The rate limits of mints, in memory. */
export class FakeLimitStore {
  readonly limits = new Map<string, object>();
  isAway = false;

  async readRateLimits(mintUrl: string): Promise<unknown> {
    this.#fail();
    return this.limits.get(mintUrl) ?? null;
  }

  async writeRateLimit(mintUrl: string, route: string, limit: object | null): Promise<void> {
    this.#fail();
    const limits = { ...this.limits.get(mintUrl), [route]: limit };
    const known = Object.entries(limits).filter(([, each]) => each !== null);
    this.limits.set(mintUrl, Object.fromEntries(known));
  }

  #fail(): void {
    if (this.isAway) {
      throw new Error('the database is away');
    }
  }
}

/** A limiter without a database, what it logs, and the requests that finished. */
export function createLimiter(
  options: { store?: FakeLimitStore; timing?: Partial<MintLimiterTiming> } = {},
) {
  const { store = new FakeLimitStore(), timing = {} } = options;
  const finished: FinishedRequest[] = [];
  const logged: Record<string, unknown>[] = [];
  const write = (fields: Record<string, unknown>) => logged.push(fields);
  const limiter = new MintRateLimiter({
    store,
    monotonicMs: () => performance.now(),
    timing,
    onFinished: (request) => finished.push(request),
    log: { info: write, warn: write } as unknown as MintRateLimiterParts['log'],
  });
  return { limiter, finished, logged };
}

export function granted(acquired: Acquired): MintPermit {
  if (acquired.outcome !== 'granted') {
    throw new Error(`no permit for ${acquired.retryAfterMs} ms`);
  }
  return acquired.permit;
}
