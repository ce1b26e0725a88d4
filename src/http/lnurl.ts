import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import type { EventVerifier } from '../auth/event-verifier.ts';
import { clientNetwork } from '../domain/client-network.ts';
import { lnurlMetadata, paymentText } from '../domain/lnurl.ts';
import type { IssueInvoice } from '../usecases/issue-invoice.ts';
import type { PaymentTerms } from '../usecases/payment-terms.ts';
import type { Recipients } from '../usecases/recipients.ts';
import { lnurlError, lnurlErrors } from './error-answers.ts';
import { readComment, readZapParameter } from './payer-words.ts';
import type { PublicHost } from './public-host.ts';
import { hexKey, queryInteger, wholeNumber } from './schemas.ts';

/** How zaps are taken (NIP-57). */
export interface ZapParts {
  /** The key that signs receipts, hex. */
  pubkey: string;
  verifyEvent: EventVerifier;
  /** Whether a payer's relays may be private and without TLS (development). */
  allowPrivateRelays: boolean;
}

interface LnurlParts {
  recipients: Recipients;
  paymentTerms: PaymentTerms;
  issueInvoice: IssueInvoice;
  publicHost: PublicHost;
  lnurlText: string;
  /** Characters; 0: no comments are taken. */
  maxCommentLength: number;
  /** Null: there are no zaps, and zap requests are ignored. */
  zaps: ZapParts | null;
}

const payResponse = z
  .object({
    tag: z.literal('payRequest'),
    callback: z.url().describe('Where an invoice is asked for, with `amount`.'),
    minSendable: wholeNumber.describe('Millisatoshis.'),
    maxSendable: wholeNumber.describe('Millisatoshis.'),
    metadata: z
      .string()
      .describe('JSON: a list with a `text/plain` and a `text/identifier` (LUD-06, LUD-16).'),
    commentAllowed: wholeNumber.optional().describe('Longest comment, in characters (LUD-12).'),
    allowsNostr: z.literal(true).optional().describe('Zaps are taken (NIP-57).'),
    nostrPubkey: hexKey.optional().describe('The key that signs the receipts of zaps.'),
  })
  .meta({ id: 'LnurlPayResponse', description: 'What can be paid, and where (LUD-06).' });

const invoiceResponse = z
  .object({
    pr: z.string().describe('The BOLT11 invoice.'),
    routes: z.array(z.unknown()).max(0).describe('Always empty.'),
    verify: z.url().describe('Tells whether the invoice was paid (LUD-21).'),
  })
  .meta({ id: 'LnurlInvoiceResponse', description: 'An invoice (LUD-06).' });

const schema = {
  operationId: 'payAddress',
  tags: ['Payers'],
  summary: 'Pay a Lightning address',
  description:
    'Without `amount`: what can be paid. With it: an invoice for it. What is wrong with a request is ' +
    'answered with 200 too, as LUD-06 has it. Parameters that are not known are passed over.',
  params: z.object({
    user: z.string().describe('An `npub1...` key or a username, in upper or lower case.'),
  }),
  querystring: z.object({
    amount: queryInteger(1)
      .optional()
      .describe('Millisatoshis, of whole sats, from `minSendable` to `maxSendable`.'),
    // Of several, the first: no payment fails for that.
    comment: z
      .preprocess((text) => (Array.isArray(text) ? (text[0] ?? '') : text), z.string())
      .default('')
      .describe('The payer’s words (LUD-12).'),
    // Read from the url itself, to the byte as it was signed: see `readZapParameter`.
    nostr: z
      .unknown()
      .meta({ type: 'string', description: 'A zap request (NIP-57), where zaps are taken.' })
      .optional(),
  }),
  response: {
    200: z
      .union([payResponse, invoiceResponse, lnurlError])
      .meta({ description: 'What can be paid, an invoice, or what is wrong with the request.' }),
    ...lnurlErrors(500),
  },
};

/**
 * `GET /.well-known/lnurlp/{user}`: discovery, and with `amount` an invoice (LUD-06, LUD-16), which may
 * come with a comment (LUD-12) and a zap request (NIP-57).
 */
export const lnurlRoutes: FastifyPluginAsync<LnurlParts> = async (app, parts) => {
  const { publicHost, lnurlText, recipients, paymentTerms } = parts;
  const features = featuresOf(parts);
  app
    .withTypeProvider<ZodTypeProvider>()
    .get('/.well-known/lnurlp/:user', { schema }, (request) => {
      const { amount, comment } = request.query;
      const address = { user: request.params.user, origin: publicHost.originFor(request) };
      // HEAD requests never create an invoice.
      return amount === undefined || request.method === 'HEAD'
        ? discover(address)
        : issue(request, address, { amountMsat: amount, comment });
    });

  async function discover({ user, origin }: Address): Promise<z.infer<typeof payResponse>> {
    const recipient = await recipients.byAddress(user);
    const { minMsat, maxMsat } = await paymentTerms.rangeFor(recipient);
    const name = user.toLowerCase();
    return {
      tag: 'payRequest',
      callback: `${origin}/.well-known/lnurlp/${name}`,
      minSendable: minMsat,
      maxSendable: maxMsat,
      metadata: lnurlMetadata(`${name}@${publicHost.hostOf(origin)}`, lnurlText),
      ...features,
    };
  }

  async function issue(
    request: FastifyRequest,
    { user, origin }: Address,
    { amountMsat, comment }: { amountMsat: number; comment: string },
  ) {
    const recipient = await recipients.byAddress(user);
    const address = `${user.toLowerCase()}@${publicHost.hostOf(origin)}`;
    const payer = { addressGroup: clientNetwork(request.ip) };
    const invoice = await parts.issueInvoice.issue(recipient, amountMsat, payer, () => ({
      metadata: lnurlMetadata(address, lnurlText),
      text: paymentText(address, lnurlText),
      comment: readComment(comment, parts.maxCommentLength),
      zapRequest: zapRequestOf(request, parts.zaps, { recipient: recipient.pubkey, amountMsat }),
    }));
    return {
      pr: invoice.request,
      routes: [],
      verify: `${origin}/lnurl/verify/${invoice.verifyToken}`,
    };
  }
};

/** Of a recipient. */
interface Address {
  /** The part before the `@`, as it was written. */
  user: string;
  /** By which the payer came. */
  origin: string;
}

/** What payers may send with a payment. */
function featuresOf({ maxCommentLength, zaps }: LnurlParts) {
  return {
    ...(maxCommentLength > 0 && { commentAllowed: maxCommentLength }),
    ...(zaps !== null && { allowsNostr: true as const, nostrPubkey: zaps.pubkey }),
  };
}

/** @throws Refusal where there is one that breaks a rule */
function zapRequestOf(
  { url }: FastifyRequest,
  zaps: ZapParts | null,
  payment: { recipient: string; amountMsat: number },
): string | null {
  if (zaps === null) {
    return null;
  }
  const { pubkey, verifyEvent, allowPrivateRelays } = zaps;
  return readZapParameter(url, { ...payment, zapPubkey: pubkey, allowPrivateRelays }, verifyEvent);
}
