import { LRUCache } from 'lru-cache';
import type { FinishedMintRequest } from '../../mints/mint-rate-limiter.ts';

/** Counts the requests of this process to each mint since its start. Forgets the mints that were used longest ago. */
export class MintRequestCounter {
  readonly #counts = new LRUCache<string, { requests: number; failures: number }>({ max: 1_000 });

  record({ mintUrl, outcome }: FinishedMintRequest): void {
    const { requests, failures } = this.count(mintUrl);
    const isFailure = outcome === 'unavailable';
    this.#counts.set(mintUrl, {
      requests: requests + 1,
      failures: failures + Number(isFailure),
    });
  }

  count(mintUrl: string): { requests: number; failures: number } {
    return this.#counts.get(mintUrl) ?? { requests: 0, failures: 0 };
  }
}
