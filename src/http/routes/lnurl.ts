import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { toUnixSeconds } from '../../clock.ts';
import { RequestError } from '../../errors.ts';
import { toAddressPrefixes } from '../../net/address-prefixes.ts';
import { getSendableRange, issueInvoice } from '../../quotes/issue-invoice.ts';
import {
  buildLnurlMetadata,
  type PaymentDetails,
  validateComment,
} from '../../quotes/lnurl-pay.ts';
import { findQuoteByVerifyToken } from '../../quotes/quote-store.ts';
import { decodeQueryValueCandidates } from '../../untrusted-text.ts';
import { validateZapRequest } from '../../zaps/zap-request.ts';
import type { HttpContext, Routes } from '../context.ts';
import {
  hexPubkey,
  lnurlError,
  lnurlErrors,
  nonNegativeInteger,
  queryInteger,
} from '../schemas.ts';

const payRequestResponse = z
  .object({
    tag: z.literal('payRequest'),
    callback: z.url().describe('Returns an invoice if called with `amount`.'),
    minSendable: nonNegativeInteger.describe('Millisatoshis.'),
    maxSendable: nonNegativeInteger.describe('Millisatoshis.'),
    metadata: z
      .string()
      .describe('JSON: `text/plain`, `text/identifier` and any `text/tag` (LUD-16).'),
    commentAllowed: nonNegativeInteger.optional().describe('In characters (LUD-12).'),
    allowsNostr: z.literal(true).optional().describe('Zaps are supported (NIP-57).'),
    nostrPubkey: hexPubkey.optional().describe('The public key that signs zap receipts.'),
  })
  .meta({ id: 'LnurlPayResponse', description: 'The payment terms of an address (LUD-06).' });

const invoiceResponse = z
  .object({
    pr: z.string().describe('The BOLT11 invoice.'),
    routes: z.array(z.unknown()).max(0).describe('Always empty.'),
    verify: z.url().describe('Returns whether the invoice was paid (LUD-21).'),
  })
  .meta({ id: 'LnurlInvoiceResponse', description: 'An invoice (LUD-06).' });

const paySchema = {
  operationId: 'payAddress',
  summary: 'Pay a Lightning address',
  description:
    'Without `amount`: the payment terms. With `amount`: an invoice. Invalid requests also return 200, as ' +
    'LUD-06 requires. Unknown parameters are ignored.',
  params: z.object({
    user: z
      .string()
      .describe('`npub1...` or a username, perhaps with a tag (`alice+shop`, LUD-16).'),
  }),
  querystring: z.object({
    amount: queryInteger(1).optional().describe('Millisatoshis, but whole sats.'),
    // Several comments do not fail the payment. Only the first one is used.
    comment: z
      .preprocess((text) => (Array.isArray(text) ? (text[0] ?? '') : text), z.string())
      .default('')
      .describe('The payer’s comment (LUD-12).'),
    // Not used, only documented: `readZapRequest` reads the value from the URL.
    nostr: z
      .unknown()
      .meta({ type: 'string', description: 'A zap request (NIP-57), if zaps are supported.' })
      .optional(),
  }),
  response: {
    200: z
      .union([payRequestResponse, invoiceResponse, lnurlError])
      .meta({ description: 'The payment terms, an invoice, or an error.' }),
    ...lnurlErrors(500, 503),
  },
};

const verifyResponse = z
  .object({
    status: z.literal('OK'),
    settled: z.boolean().describe('Whether the service has recorded the payment.'),
    preimage: z.null().describe('Always null: only the mint knows it.'),
    pr: z.string().describe('The BOLT11 invoice.'),
  })
  .meta({ id: 'LnurlVerifyResponse', description: 'The status of an invoice (LUD-21).' });

const verifySchema = {
  operationId: 'verifyPayment',
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
      headers: { 'Cache-Control': { const: 'no-store' } },
    }),
    ...lnurlErrors(500, 503),
  },
};

/** What payers' wallets request (LUD-06, LUD-16, LUD-21). */
export const lnurlRoutes: Routes = async (app, context) => {
  const { db, recipients, invoices, publicOrigins, descriptionTemplate } = context;
  app.get('/.well-known/lnurlp/:user', { schema: paySchema }, async (request) => {
    const { amount, comment } = request.query;
    const origin = publicOrigins.getOriginForRequest(request);
    const { recipient, account, tag } = await recipients.resolveAddress(request.params.user);
    const address = `${account}@${publicOrigins.getHost(origin)}`;
    const lnurlMetadata = buildLnurlMetadata(address, tag, descriptionTemplate);
    const zapPubkey = context.getZapPubkey(recipient.mintUrl);
    // HEAD requests never create an invoice.
    if (amount === undefined || request.method === 'HEAD') {
      const { minMsat, maxMsat } = await getSendableRange(invoices, recipient);
      return {
        tag: 'payRequest' as const,
        callback: `${origin}/.well-known/lnurlp/${request.params.user.toLowerCase()}`,
        minSendable: minMsat,
        maxSendable: maxMsat,
        metadata: lnurlMetadata,
        ...(context.maxCommentLength > 0 && { commentAllowed: context.maxCommentLength }),
        ...(zapPubkey !== null && { allowsNostr: true as const, nostrPubkey: zapPubkey }),
      };
    }
    const details = {
      lnurlMetadata,
      tag,
      comment: validateComment(comment, context.maxCommentLength),
      ...readZapRequest(request, recipient.pubkey, amount, zapPubkey, context),
    };
    const prefixes = toAddressPrefixes(request.ip);
    const invoice = await issueInvoice(invoices, {
      recipient,
      amountMsat: amount,
      prefixes,
      details,
    });
    return {
      pr: invoice.request,
      routes: [],
      verify: `${origin}/lnurl/verify/${invoice.verifyToken}`,
    };
  });

  // The header is set in a hook, so that responses to invalid requests have it, too.
  const onRequest = async (_request: FastifyRequest, reply: FastifyReply) => {
    reply.header('cache-control', 'no-store');
  };
  app.get('/lnurl/verify/:token', { schema: verifySchema, onRequest }, async (request) => {
    const quote = await findQuoteByVerifyToken(db, request.params.token);
    if (quote === null) {
      throw new RequestError('invalid', 'Not found');
    }
    const settled = quote.state === 'PAID' || quote.state === 'ISSUED';
    return { status: 'OK' as const, settled, preimage: null, pr: quote.request };
  });
};

/** Returns the zap request (NIP-57) byte for byte as it was signed, unlike the parsed query. Throws RequestError. */
function readZapRequest(
  { url }: FastifyRequest,
  recipient: string,
  amountMsat: number,
  zapPubkey: string | null,
  { verifyEvent, clock }: HttpContext,
): Pick<PaymentDetails, 'zapRequest' | 'receiptRefusal'> {
  const [, query = ''] = /\?([^#]*)/.exec(url) ?? [];
  const parameters = query.split('&').filter((parameter) => /^nostr=./.test(parameter));
  if (parameters[0] === undefined || zapPubkey === null) {
    return { zapRequest: null, receiptRefusal: null };
  }
  if (parameters.length > 1) {
    throw new RequestError('invalid', 'The zap request must be given once.');
  }
  // `+` may mean a space.
  const candidates = decodeQueryValueCandidates(parameters[0].slice('nostr='.length));
  const rules = { recipient, amountMsat, zapPubkey, nowSeconds: toUnixSeconds(clock()) };
  const result = validateZapRequest(candidates, rules, verifyEvent);
  switch (result.outcome) {
    case 'valid':
      return { zapRequest: result.json, receiptRefusal: null };
    case 'other_recipient':
      return { zapRequest: null, receiptRefusal: 'zap_request_for_other_key' };
    case 'rejected':
      throw new RequestError('invalid', result.reason);
  }
}
