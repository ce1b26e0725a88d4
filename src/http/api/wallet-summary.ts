import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { summarisePaidQuotes } from '../../quotes/paid-list-store.ts';
import type { HttpContext } from '../context.ts';
import { MAX_COUNTED_PAYMENTS } from '../limits.ts';
import { apiError, errorResponses, nonNegativeInteger, successEnvelope } from '../schemas.ts';

const paymentSumShape = {
  payments: nonNegativeInteger.describe('Number of payments.'),
  amount: nonNegativeInteger.describe('Sats.'),
};

const walletSummary = z
  .object({
    ...paymentSumShape,
    waiting: z
      .object(paymentSumShape)
      .describe('The payments among them that are PAID or INFLIGHT, so not yet minted.'),
    complete: z.boolean().describe('False if the user has older payments, which are not included.'),
  })
  .meta({ id: 'WalletSummary', description: 'The totals of the user’s payments.' });

const schema = {
  operationId: 'summariseQuotes',
  tags: ['Wallets'],
  summary: 'Get the totals of the user’s payments',
  description: `Adds up the newest ${MAX_COUNTED_PAYMENTS} payments.`,
  response: {
    200: successEnvelope(walletSummary).meta({ description: 'The totals.' }),
    ...errorResponses(apiError, 401, 500, 503),
  },
};

/** `GET /api/v2/wallet/summary`. */
export const walletSummaryRoutes: FastifyPluginAsyncZod<HttpContext> = async (app, { db }) => {
  app.get('/api/v2/wallet/summary', { schema }, async (request) => {
    const { total, all, waiting } = await summarisePaidQuotes(
      db,
      request.pubkey,
      MAX_COUNTED_PAYMENTS,
    );
    return {
      error: false as const,
      data: {
        payments: all.payments,
        amount: all.amountSat,
        waiting: { payments: waiting.payments, amount: waiting.amountSat },
        complete: all.payments === total,
      },
    };
  });
};
