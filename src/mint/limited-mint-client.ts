import type { CreateQuoteAnswer, MintClient } from './mint-client.ts';
import type { MintPermit } from './mint-rate-limiter.ts';

// TEMPORARY: the interface that IssueInvoice needs, until the real client is merged.
export interface LimitedMintClient {
  createQuote(
    mintUrl: string,
    permit: MintPermit,
    params: Parameters<MintClient['createQuote']>[1],
  ): Promise<CreateQuoteAnswer>;
}
