// TEMPORARY: types, and a class that permits everything, until the real limiter is merged.
import { z } from 'zod';

export type MintRoute =
  | 'create'
  | 'read'
  | 'check'
  | 'info'
  | 'keys'
  | 'swap'
  | 'state'
  | 'restore'
  | 'melt_quote'
  | 'melt'
  | 'socket';

const storedRateLimits = z.partialRecord(
  z.enum([
    'create',
    'read',
    'check',
    'info',
    'keys',
    'swap',
    'state',
    'restore',
    'melt_quote',
    'melt',
    'socket',
  ]),
  z.object({ perWindow: z.int().nullable(), restUntilMs: z.number() }),
);

/** What `mints.rate_limits` holds, by route. */
export type StoredRateLimits = z.output<typeof storedRateLimits>;

/** Reads what the limiter has stored with a mint. Returns null for anything else. */
export function parseRateLimits(stored: unknown): StoredRateLimits | null {
  return storedRateLimits.safeParse(stored).data ?? null;
}

export interface MintPermit {
  /** Reports what came of the request. */
  settle(outcome: {
    outcome: string;
    retryAfterMs?: number | null;
    reason?: string;
    isUnsent?: true;
  }): void;
  /** Gives the permit back: the request was never sent. */
  withdraw(): void;
}

export type Acquired =
  | { outcome: 'granted'; permit: MintPermit }
  | { outcome: 'rate_limited'; retryAfterMs: number };

export class MintRateLimiter {
  acquire(
    _mintUrl: string,
    _route: MintRoute,
    _options?: { addressGroup?: string; patienceMs?: number },
  ): Promise<Acquired> {
    const permit = { settle: () => undefined, withdraw: () => undefined };
    return Promise.resolve({ outcome: 'granted', permit });
  }
}
