import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { RequestError } from '../../errors.ts';
import { findQuoteByVerifyToken } from '../../quotes/quote-store.ts';
import type { HttpContext } from '../context.ts';
import { errorResponses, lnurlError } from '../schemas.ts';

const CACHE_CONTROL = 'no-store';

const verifyResponse = z
  .object({
    status: z.literal('OK'),
    settled: z.boolean().describe('Whether the service has recorded the payment.'),
    preimage: z.null().describe('Always null: only the mint knows it.'),
    pr: z.string().describe('The BOLT11 invoice.'),
  })
  .meta({ id: 'LnurlVerifyResponse', description: 'The status of an invoice (LUD-21).' });

const schema = {
  operationId: 'verifyPayment',
  tags: ['Payers'],
  summary: 'Check whether an invoice was paid',
  description:
    'Returns the recorded state without a request to the mint. The URL keeps working after the invoice expires.',
  params: z.object({
    token: z
      .string()
      .regex(/^[0-9a-f]{64}$/)
      .describe('From the `verify` URL of an invoice.'),
  }),
  response: {
    200: z.union([verifyResponse, lnurlError]).meta({
      description: 'The status of the invoice, or `Not found` for an unknown or malformed token.',
      headers: { 'Cache-Control': { const: CACHE_CONTROL } },
    }),
    ...errorResponses(lnurlError, 500, 503),
  },
};

/** `GET /lnurl/verify/{token}` (LUD-21). Never sends a request to a mint. */
export const lnurlVerifyRoutes: FastifyPluginAsyncZod<HttpContext> = async (app, { db }) => {
  app.get(
    '/lnurl/verify/:token',
    {
      schema,
      // In a hook, so that validation errors also have the header.
      onRequest: async (_request, reply) => {
        reply.header('cache-control', CACHE_CONTROL);
      },
    },
    async (request) => {
      const quote = await findQuoteByVerifyToken(db, request.params.token);
      if (quote === null) {
        throw new RequestError('invalid', 'Not found');
      }
      // INFLIGHT is not settled.
      const settled = quote.state === 'PAID' || quote.state === 'ISSUED';
      return { status: 'OK' as const, settled, preimage: null, pr: quote.request };
    },
  );
};
