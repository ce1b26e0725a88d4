import type { FastifyPluginAsync } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { toUnixSeconds } from '../../domain/clock.ts';
import { MAX_PAGE_SIZE, MAX_REQUESTED_PAGE_SIZE } from '../../domain/limits.ts';
import type { ListedQuote } from '../../store/quote-store.ts';
import type { Store } from '../../store/store.ts';
import { queryInteger } from '../schemas.ts';

const query = z.object({
  since: queryInteger(0).optional(),
  limit: queryInteger(1, MAX_REQUESTED_PAGE_SIZE).default(MAX_PAGE_SIZE),
  offset: queryInteger(0).default(0),
});

/** `GET /api/v2/wallet/quotes`: the user's paid quotes, newest payment first (spec.md section 4.2). */
export const quoteRoutes: FastifyPluginAsync<{ store: Pick<Store, 'quotes'> }> = async (
  app,
  { store },
) => {
  app
    .withTypeProvider<ZodTypeProvider>()
    .get('/api/v2/wallet/quotes', { schema: { querystring: query } }, async (request) => {
      const { since, offset } = request.query;
      const limit = Math.min(request.query.limit, MAX_PAGE_SIZE);
      const { quotes, total } = await store.quotes.listPaid(request.pubkey, {
        sinceSeconds: since ?? null,
        limit,
        offset,
      });
      return {
        error: false,
        data: { quotes: quotes.map(toQuoteResource) },
        metadata: {
          total,
          limit,
          ...(since === undefined ? {} : { since }),
          ...(offset === 0 ? {} : { offset }),
        },
      };
    });
};

/**
 * Unix seconds and sats, always whole numbers, and what there is not is absent: some wallets fail on
 * anything else. `comment` is beyond the specification; wallets pass over what they do not know.
 */
function toQuoteResource(quote: ListedQuote) {
  return {
    createdAt: toUnixSeconds(quote.createdAtMs),
    paidAt: toUnixSeconds(quote.paidAtMs),
    expiresAt: toUnixSeconds(quote.expiresAtMs),
    mintUrl: quote.mintUrl,
    quoteId: quote.quoteId,
    request: quote.request,
    amount: quote.amountSat,
    state: quote.state,
    locked: quote.locked,
    ...(quote.zapRequest !== null && { zapRequest: quote.zapRequest }),
    ...(quote.comment !== null && { comment: quote.comment }),
  };
}
