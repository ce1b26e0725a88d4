import type { EcashClient } from './ecash-client.ts';
import { limitedRequest } from './limited-mint-client.ts';
import type { MintRateLimiter, MintRoute } from './mint-rate-limiter.ts';

/** The requests of an {@link EcashClient}. After `rate_limited` nothing was sent. */
export type EcashRequests = Pick<EcashClient, keyof EcashClient>;

/** An {@link EcashClient} that asks a mint only when the {@link MintRateLimiter} permits. */
export function limitedEcashClient(client: EcashClient, limiter: MintRateLimiter): EcashRequests {
  const patienceMs = limiter.payerPatienceMs;
  const limited = <Answer extends { outcome: string }>(
    mintUrl: string,
    route: MintRoute,
    ask: () => Promise<Answer>,
  ) => limitedRequest(limiter, mintUrl, route, ask, { patienceMs });
  return {
    readKeysets: (...args) => limited(args[0], 'keys', () => client.readKeysets(...args)),
    readKeys: (...args) => limited(args[0], 'keys', () => client.readKeys(...args)),
    swap: (...args) => limited(args[0], 'swap', () => client.swap(...args)),
    checkState: (...args) => limited(args[0], 'state', () => client.checkState(...args)),
    restore: (...args) => limited(args[0], 'restore', () => client.restore(...args)),
  };
}
