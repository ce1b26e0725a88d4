import { MAX_QUOTE_ID_LENGTH } from '../../mints/quote-answer.ts';
import type { FastifyPluginAsync } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { toUnixSeconds } from '../../clock.ts';
import type { ListedQuote } from '../../quotes/quote-store.ts';
import type { Store } from '../../store.ts';
import { apiErrors, queryInteger, success, unixSeconds, wholeNumber } from '../schemas.ts';

/** Rows on one page of the quote list (spec.md section 8). */
const MAX_PAGE_SIZE = 50;

/** The largest valid page size in a request (spec.md section 8). */
const MAX_REQUESTED_PAGE_SIZE = 1000;

// Zod's own words for these leave the defaults out: it cannot write them as the texts that a url has.
const querystring = z.object({
  since: queryInteger(0).optional().describe('Only quotes paid later than this (Unix seconds).'),
  limit: queryInteger(1, MAX_REQUESTED_PAGE_SIZE)
    .default(MAX_PAGE_SIZE)
    .meta({
      default: MAX_PAGE_SIZE,
      description: `How many quotes are wanted; more than ${MAX_PAGE_SIZE} are never answered.`,
    }),
  offset: queryInteger(0)
    .default(0)
    .meta({ default: 0, description: 'How many of the newest quotes are left out.' }),
});

/**
 * Unix seconds and sats, always whole numbers, and what there is not is absent: some wallets fail on
 * anything else. `comment` is beyond the specification; wallets pass over what they do not know.
 */
const quoteResource = z
  .object({
    createdAt: unixSeconds.describe('Unix seconds.'),
    paidAt: unixSeconds.describe('Unix seconds: when the payment became visible here.'),
    expiresAt: unixSeconds.describe('Unix seconds. Some mints do not mint a quote after that.'),
    mintUrl: z.url().describe('The mint that made the quote, and alone can mint it.'),
    quoteId: z
      .string()
      .max(MAX_QUOTE_ID_LENGTH)
      .describe('Secret: who knows the id of a quote that is not locked can mint it.'),
    request: z.string().describe('The BOLT11 invoice.'),
    amount: wholeNumber.describe('Sats.'),
    state: z
      .enum(['PAID', 'ISSUED', 'INFLIGHT'])
      .describe('INFLIGHT: paid, and the mint is busy with it. ISSUED: minted, as the mint says.'),
    locked: z.boolean().describe('Whether minting takes a signature of this key (NUT-20).'),
    zapRequest: z.string().optional().describe('The zap request (NIP-57), as it was signed.'),
    comment: z.string().optional().describe('The payer’s words (LUD-12).'),
  })
  .meta({ id: 'Quote', description: 'A payment: a mint quote that its owner’s wallet mints.' });

const quotesResponse = success(z.object({ quotes: z.array(quoteResource) }))
  .extend({
    metadata: z.object({
      total: wholeNumber.describe('All quotes that match, on whatever page.'),
      limit: wholeNumber.describe('The limit that was applied.'),
      since: unixSeconds.optional().describe('As it was sent, where it was.'),
      offset: wholeNumber.optional().describe('The same, where it is not 0.'),
    }),
  })
  .meta({ description: 'The newest payment first.' });

const schema = {
  operationId: 'listQuotes',
  tags: ['Wallets'],
  summary: 'The user’s payments',
  description:
    'Read page after page until `metadata.total` quotes were read. A quote stays in the list after it ' +
    'was minted: which ones are done, a wallet remembers by `mintUrl` and `quoteId`.',
  querystring,
  response: { 200: quotesResponse, ...apiErrors(400, 401, 500) },
};

/** `GET /api/v2/wallet/quotes`: the user's paid quotes, newest payment first (spec.md section 4.2). */
export const quoteRoutes: FastifyPluginAsync<{ store: Pick<Store, 'quotes'> }> = async (
  app,
  { store },
) => {
  app
    .withTypeProvider<ZodTypeProvider>()
    .get('/api/v2/wallet/quotes', { schema }, async (request) => {
      const { since, offset } = request.query;
      const limit = Math.min(request.query.limit, MAX_PAGE_SIZE);
      const { quotes, total } = await store.quotes.listPaid(request.pubkey, {
        sinceSeconds: since ?? null,
        limit,
        offset,
      });
      return {
        error: false as const,
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

function toQuoteResource(quote: ListedQuote): z.infer<typeof quoteResource> {
  return {
    createdAt: toUnixSeconds(quote.createdAtMs),
    paidAt: toUnixSeconds(quote.paidAtMs),
    expiresAt: toUnixSeconds(quote.expiresAtMs),
    mintUrl: quote.mintUrl,
    quoteId: quote.quoteId,
    request: quote.request,
    amount: quote.amountSat,
    state: quote.state,
    locked: quote.locked === 1,
    zapRequest: quote.zapRequest ?? undefined,
    comment: quote.comment ?? undefined,
  };
}
