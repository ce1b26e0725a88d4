import type { FastifyPluginAsync } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { Refusal } from '../../errors.ts';
import type { Store } from '../../store.ts';
import { lnurlError, lnurlErrors } from '../schemas.ts';

/** A payment may be seen at any moment. */
const CACHE_CONTROL = 'no-store';

const verifyResponse = z
  .object({
    status: z.literal('OK'),
    settled: z.boolean().describe('Whether the payment was seen here.'),
    preimage: z.null().describe('Never told: the mint has it.'),
    pr: z.string().describe('The BOLT11 invoice.'),
  })
  .meta({ id: 'LnurlVerifyResponse', description: 'How an invoice stands (LUD-21).' });

const schema = {
  operationId: 'verifyPayment',
  tags: ['Payers'],
  summary: 'Whether an invoice was paid',
  description:
    'What is known here, without asking the mint. The url works after the invoice has expired, too.',
  params: z.object({
    token: z
      .string()
      .regex(/^[0-9a-f]{64}$/)
      .describe('From the `verify` url of an invoice.'),
  }),
  response: {
    200: z.union([verifyResponse, lnurlError]).meta({
      description: 'How the invoice stands, or `Not found` of every token that is none.',
      headers: { 'Cache-Control': { const: CACHE_CONTROL } },
    }),
    ...lnurlErrors(500),
  },
};

/** `GET /lnurl/verify/{token}`: whether one invoice was paid (LUD-21). Never asks a mint. */
export const verifyRoutes: FastifyPluginAsync<{ store: Store }> = async (app, { store }) => {
  app.withTypeProvider<ZodTypeProvider>().get(
    '/lnurl/verify/:token',
    {
      schema,
      // Also where what follows is no token.
      onRequest: async (_request, reply) => {
        reply.header('cache-control', CACHE_CONTROL);
      },
    },
    async (request) => {
      const quote = await store.quotes.findByVerifyToken(request.params.token);
      if (quote === null) {
        throw new Refusal('invalid', 'Not found');
      }
      // INFLIGHT is no payment yet (spec.md, LnurlVerifyResponse).
      const settled = quote.state === 'PAID' || quote.state === 'ISSUED';
      return { status: 'OK' as const, settled, preimage: null, pr: quote.request };
    },
  );
};
