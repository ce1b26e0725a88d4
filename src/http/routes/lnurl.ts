import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { Refusal } from '../../errors.ts';
import type { EventVerifier } from '../../nostr/events.ts';
import type { IssueInvoice } from '../../quotes/issue-invoice.ts';
import { lnurlMetadata, paymentText } from '../../quotes/lnurl.ts';
import type { Recipients } from '../../recipients/recipients.ts';
import { formReadings } from '../../untrusted-text.ts';
import { readZapRequest } from '../../zaps/zap-request.ts';
import type { PublicHost } from '../public-host.ts';
import { clientNetwork } from '../rate-limits.ts';
import { hexKey, lnurlError, lnurlErrors, queryInteger, wholeNumber } from '../schemas.ts';

interface ZapParts {
  /** The key that signs receipts, hex. */
  pubkey: string;
  verifyEvent: EventVerifier;
  /** Whether a payer's relays may be private and without TLS (development). */
  allowPrivateRelays: boolean;
}

export interface LnurlParts {
  recipients: Recipients;
  issueInvoice: IssueInvoice;
  publicHost: PublicHost;
  lnurlText: string;
  /** In Unicode code points; 0: comments are ignored. */
  maxCommentLength: number;
  /** Null: zap requests are ignored. */
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
    // The first of several: no payment fails because of that.
    comment: z
      .preprocess((text) => (Array.isArray(text) ? (text[0] ?? '') : text), z.string())
      .default('')
      .describe('The payer’s words (LUD-12).'),
    // `zapRequestOf` reads it from the URL, byte for byte as it was signed.
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
  const { publicHost, lnurlText, recipients, issueInvoice, maxCommentLength, zaps } = parts;
  app
    .withTypeProvider<ZodTypeProvider>()
    .get('/.well-known/lnurlp/:user', { schema }, async (request) => {
      const { amount, comment } = request.query;
      const origin = publicHost.originFor(request);
      const recipient = await recipients.byAddress(request.params.user);
      const name = request.params.user.toLowerCase();
      const address = `${name}@${publicHost.hostOf(origin)}`;
      const metadata = lnurlMetadata(address, lnurlText);
      // HEAD requests never create an invoice.
      if (amount === undefined || request.method === 'HEAD') {
        const { minMsat, maxMsat } = await issueInvoice.rangeFor(recipient);
        return {
          tag: 'payRequest' as const,
          callback: `${origin}/.well-known/lnurlp/${name}`,
          minSendable: minMsat,
          maxSendable: maxMsat,
          metadata,
          ...(maxCommentLength > 0 && { commentAllowed: maxCommentLength }),
          ...(zaps !== null && { allowsNostr: true as const, nostrPubkey: zaps.pubkey }),
        };
      }
      const payer = { addressGroup: clientNetwork(request.ip) };
      const payment = { recipient: recipient.pubkey, amountMsat: amount };
      const invoice = await issueInvoice.issue(recipient, amount, payer, () => ({
        metadata,
        text: paymentText(address, lnurlText),
        comment: acceptedComment(comment, maxCommentLength),
        zapRequest: zaps && zapRequestOf(request, zaps, payment),
      }));
      return {
        pr: invoice.request,
        routes: [],
        verify: `${origin}/lnurl/verify/${invoice.verifyToken}`,
      };
    });
};

/**
 * Returns the payer's comment (LUD-12), or null if there is none or comments are ignored.
 *
 * @throws Refusal if it is too long, or cannot be stored
 */
function acceptedComment(comment: string, maxLength: number): string | null {
  if (maxLength === 0 || comment.trim() === '') {
    return null;
  }
  // Code points: an emoji may have several.
  if ([...comment].length > maxLength) {
    throw new Refusal('invalid', `The comment must have at most ${maxLength} characters.`);
  }
  if (comment.includes('\0')) {
    throw new Refusal('invalid', 'The comment must not have NUL characters.');
  }
  return comment;
}

/**
 * Returns the zap request of the URL's `nostr` parameter (NIP-57), byte for byte as it was signed, or null.
 *
 * @throws Refusal if it breaks a rule
 */
function zapRequestOf(
  { url }: FastifyRequest,
  { pubkey, verifyEvent, allowPrivateRelays }: ZapParts,
  payment: { recipient: string; amountMsat: number },
): string | null {
  const [encoded, ...more] = queryValues(url, 'nostr').filter((value) => value !== '');
  if (encoded === undefined) {
    return null;
  }
  if (more.length > 0) {
    throw new Refusal('invalid', 'The zap request must be given once.');
  }
  const rules = { ...payment, zapPubkey: pubkey, allowPrivateRelays };
  const reading = readZapRequest(formReadings(encoded), rules, verifyEvent);
  if (reading.outcome === 'refused') {
    throw new Refusal('invalid', reading.reason);
  }
  return reading.text;
}

/** Returns the values of a parameter in a URL's query, still percent-encoded. */
function queryValues(url: string, name: string): string[] {
  const [, query = ''] = /\?([^#]*)/.exec(url) ?? [];
  return query
    .split('&')
    .filter((parameter) => parameter.startsWith(`${name}=`))
    .map((parameter) => parameter.slice(name.length + 1));
}
