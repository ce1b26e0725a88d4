import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { z } from 'zod';
import { toOptionalUnixSeconds, toUnixSeconds } from '../../clock.ts';
import { isQuoteId, MAX_QUOTE_ID_LENGTH } from '../../mints/quote-responses.ts';
import {
  findListedQuotes,
  type ListedQuote,
  listPaidQuotes,
  summarisePaidQuotes,
} from '../../quotes/paid-list-store.ts';
import type { Routes } from '../context.ts';
import { MAX_QUOTE_LOOKUP_IDS, MAX_QUOTES_PER_PAGE, MAX_SUMMARISED_PAYMENTS } from '../limits.ts';
import {
  apiErrors,
  jsonBody,
  nonNegativeInteger,
  queryInteger,
  success,
  successEnvelope,
  unixSeconds,
} from '../schemas.ts';

const ID_LIST_ERROR = `must be a list of at most ${MAX_QUOTE_LOOKUP_IDS} quote ids, each of at most ${MAX_QUOTE_ID_LENGTH} characters`;

/**
 * Contains no fractions and no null, on which some wallets fail. The API of npub.cash has no `collectBy`, `comment` and
 * `tag`.
 */
const quoteSchema = z
  .object({
    createdAt: unixSeconds.describe('Unix seconds.'),
    paidAt: unixSeconds.describe(
      'Unix seconds: when the service recorded the payment. A wallet that has read the list finds every ' +
        'later payment at a later time.',
    ),
    expiresAt: unixSeconds.describe('Unix seconds: until when the invoice can be paid.'),
    collectBy: unixSeconds
      .optional()
      .describe(
        'Unix seconds: the mint may refuse to mint the quote after this time. Absent if the quote is minted, or if the ' +
          'mint is known to mint expired quotes.',
      ),
    mintUrl: z.url().describe('The mint that created the quote; only it can mint the quote.'),
    quoteId: z.string().max(MAX_QUOTE_ID_LENGTH).describe('Secret, unless the quote is locked.'),
    request: z.string().describe('The BOLT11 invoice.'),
    amount: nonNegativeInteger.describe('Sats.'),
    state: z
      .enum(['PAID', 'ISSUED', 'INFLIGHT'])
      .describe('INFLIGHT: the mint is processing the payment. ISSUED: reported as minted.'),
    locked: z.boolean().describe('Whether minting requires a signature by this key (NUT-20).'),
    zapRequest: z.string().optional().describe('The signed zap request (NIP-57), unchanged.'),
    comment: z.string().optional().describe('The payer’s comment (LUD-12).'),
    tag: z.string().optional().describe('`shop` of `alice+shop@host` (LUD-16), in lower case.'),
  })
  .meta({ id: 'Quote', description: 'A payment: a mint quote that the recipient’s wallet mints.' });

const listQuotesResponse = successEnvelope(z.object({ quotes: z.array(quoteSchema) }))
  .extend({
    metadata: z.object({
      total: nonNegativeInteger.describe('Matching quotes on all pages.'),
      limit: nonNegativeInteger.describe('The limit that was applied.'),
      since: unixSeconds.optional().describe('The requested value, if any.'),
      offset: nonNegativeInteger.optional().describe('The requested value, unless 0.'),
    }),
  })
  .meta({ description: 'Newest payment first.' });

const listSchema = {
  operationId: 'listQuotes',
  summary: 'List the user’s payments',
  description:
    'Read pages until `metadata.total` quotes have been read. Minted quotes stay in the list: wallets ' +
    'remember completed quotes by `mintUrl` and `quoteId`.',
  // `meta` repeats the defaults, because zod cannot add them to the OpenAPI document.
  querystring: z.object({
    since: queryInteger(0).optional().describe('Only quotes paid later than this (Unix seconds).'),
    limit: queryInteger(1, 1_000)
      .default(MAX_QUOTES_PER_PAGE)
      .meta({
        default: MAX_QUOTES_PER_PAGE,
        description: `Page size; the response never has more than ${MAX_QUOTES_PER_PAGE} quotes.`,
      }),
    offset: queryInteger(0)
      .default(0)
      .meta({ default: 0, description: 'Number of newest quotes to skip.' }),
  }),
  response: { 200: listQuotesResponse, ...apiErrors(400, 401, 500, 503) },
};

const findSchema = {
  operationId: 'findQuotes',
  summary: 'Get payments by their quote ids',
  description:
    'Returns those quotes of the quote list whose ids are given, in any order. Leaves out all other ids.',
  body: jsonBody({
    quoteIds: z.custom<string[]>(isIdList, ID_LIST_ERROR).meta({
      type: 'array',
      maxItems: MAX_QUOTE_LOOKUP_IDS,
      items: { type: 'string', maxLength: MAX_QUOTE_ID_LENGTH },
    }),
  }),
  response: {
    200: z
      .object({ error: z.literal(false), quotes: z.array(quoteSchema) })
      .meta({ description: 'The quotes that were found.' }),
    ...apiErrors(400, 401, 413, 500, 503),
  },
};

/** `z.array` is not used, because it collects an issue for each malformed id. */
function isIdList(value: unknown): value is string[] {
  return (
    Array.isArray(value) &&
    value.length <= MAX_QUOTE_LOOKUP_IDS &&
    value.every((id) => typeof id === 'string' && id.length <= MAX_QUOTE_ID_LENGTH)
  );
}

const paymentSumShape = {
  payments: nonNegativeInteger.describe('Number of payments.'),
  amount: nonNegativeInteger.describe('Sats.'),
};

const walletSummary = z
  .object({
    ...paymentSumShape,
    waiting: z
      .object({
        ...paymentSumShape,
        locked: nonNegativeInteger.describe(
          'How many of these payments are locked to the user’s key.',
        ),
        collectBy: unixSeconds
          .optional()
          .describe('The earliest `collectBy` of these payments that has not passed.'),
      })
      .describe('The payments among them that are PAID or INFLIGHT, so not yet minted.'),
    complete: z.boolean().describe('False if the user has older payments, which are not included.'),
  })
  .meta({ id: 'WalletSummary', description: 'The totals of the user’s payments.' });

const summarySchema = {
  operationId: 'summariseQuotes',
  summary: 'Get the totals of the user’s payments',
  description: `Adds up the newest ${MAX_SUMMARISED_PAYMENTS} payments.`,
  response: {
    200: successEnvelope(walletSummary).meta({ description: 'The totals.' }),
    ...apiErrors(401, 500, 503),
  },
};

export const quoteRoutes: Routes = async (app, { db, clock }) => {
  app.get('/api/v2/wallet/quotes', { schema: listSchema }, async (request) => {
    const { since, offset } = request.query;
    const limit = Math.min(request.query.limit, MAX_QUOTES_PER_PAGE);
    const page = { sinceSeconds: since ?? null, limit, offset };
    const { quotes, total } = await listPaidQuotes(db, request.pubkey, page, clock());
    return {
      ...success({ quotes: quotes.map(renderQuote) }),
      metadata: { total, limit, since, offset: offset === 0 ? undefined : offset },
    };
  });

  // In a list, each id has quotation marks, a comma and a space.
  const maxIdBytes = MAX_QUOTE_ID_LENGTH + 4;
  const findOptions = {
    schema: findSchema,
    bodyLimit: MAX_QUOTE_LOOKUP_IDS * maxIdBytes + 1024,
    config: { rateLimitCategory: 'quoteLookups' },
  } as const;
  app.post('/api/v2/wallet/quotes/missing', findOptions, async (request, reply) => {
    const ids = [...new Set(request.body.quoteIds)].filter(isQuoteId);
    const serialisedQuotes: string[] = [];
    // Reading and serialising a thousand quotes takes long. Other requests get their turn between the batches.
    for (let start = 0; start < ids.length; start += MAX_QUOTES_PER_PAGE) {
      const batch = ids.slice(start, start + MAX_QUOTES_PER_PAGE);
      const quotes = await findListedQuotes(db, request.pubkey, batch, clock());
      serialisedQuotes.push(...quotes.map((quote) => JSON.stringify(renderQuote(quote))));
      await yieldToEventLoop();
    }
    reply.type('application/json; charset=utf-8');
    // cdk wallets read `quotes` outside of `data`. The cast is needed because the object is serialised already.
    return reply.send(`{"error":false,"quotes":[${serialisedQuotes.join(',')}]}` as never);
  });

  app.get('/api/v2/wallet/summary', { schema: summarySchema }, async (request) => {
    const { pubkey } = request;
    const sums = await summarisePaidQuotes(db, pubkey, MAX_SUMMARISED_PAYMENTS, clock());
    return success({
      payments: sums.payments,
      amount: sums.amountSat,
      waiting: {
        payments: sums.waitingPayments,
        amount: sums.waitingAmountSat,
        locked: sums.waitingLocked,
        collectBy: toOptionalUnixSeconds(sums.collectByMs),
      },
      complete: sums.payments === sums.total,
    });
  });
};

function renderQuote(quote: ListedQuote): z.infer<typeof quoteSchema> {
  return {
    createdAt: toUnixSeconds(quote.createdAtMs),
    paidAt: toUnixSeconds(quote.paidAtMs),
    expiresAt: toUnixSeconds(quote.expiresAtMs),
    collectBy: toOptionalUnixSeconds(quote.collectByMs),
    mintUrl: quote.mintUrl,
    quoteId: quote.quoteId,
    request: quote.request,
    amount: quote.amountSat,
    state: quote.state,
    locked: quote.locked === 1,
    zapRequest: quote.zapRequest ?? undefined,
    comment: quote.comment ?? undefined,
    tag: quote.tag ?? undefined,
  };
}
