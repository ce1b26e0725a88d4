import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import type { EventVerifier } from '../auth/event-verifier.ts';
import { clientNetwork } from '../domain/client-network.ts';
import { lnurlMetadata, paymentText } from '../domain/lnurl.ts';
import type { IssueInvoice } from '../usecases/issue-invoice.ts';
import type { PaymentTerms } from '../usecases/payment-terms.ts';
import type { Recipients } from '../usecases/recipients.ts';
import { readComment, readZapParameter } from './payer-words.ts';
import type { PublicHost } from './public-host.ts';
import { queryInteger } from './schemas.ts';

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

const params = z.object({ user: z.string() });
const query = z.object({
  amount: queryInteger(1).optional(),
  // Of several, the first: no payment fails for that.
  comment: z
    .union([z.string(), z.array(z.string()).transform(([first = '']) => first)])
    .default(''),
});

/**
 * `GET /.well-known/lnurlp/{user}`: discovery, and with `amount` an invoice (LUD-06, LUD-16), which may
 * come with a comment (LUD-12) and a zap request (NIP-57).
 */
export const lnurlRoutes: FastifyPluginAsync<LnurlParts> = async (app, parts) => {
  app
    .withTypeProvider<ZodTypeProvider>()
    .get(
      '/.well-known/lnurlp/:user',
      { schema: { params, querystring: query }, config: { countedAs: invoiceOrNothing } },
      async (request) => {
        const user = request.params.user.toLowerCase();
        const { amount, comment } = request.query;
        const origin = parts.publicHost.originFor(request);
        const address = `${user}@${new URL(origin).host}`;
        const metadata = lnurlMetadata(address, parts.lnurlText);
        const recipient = await parts.recipients.byAddress(request.params.user);
        // Who asks for the head alone wants no invoice.
        if (amount !== undefined && request.method !== 'HEAD') {
          const words = {
            metadata,
            text: paymentText(address, parts.lnurlText),
            comment: readComment(comment, parts.maxCommentLength),
            zapRequest: zapRequestOf(request, parts.zaps, {
              recipient: recipient.pubkey,
              amountMsat: amount,
            }),
          };
          const payer = { network: clientNetwork(request.ip) };
          const invoice = await parts.issueInvoice.issue(recipient, amount, payer, words);
          return {
            pr: invoice.request,
            routes: [],
            verify: `${origin}/lnurl/verify/${invoice.verifyToken}`,
          };
        }
        const range = await parts.paymentTerms.rangeFor(recipient);
        return {
          tag: 'payRequest',
          callback: `${origin}/.well-known/lnurlp/${user}`,
          minSendable: range.minMsat,
          maxSendable: range.maxMsat,
          metadata,
          ...announced(parts),
        };
      },
    );
};

/** What payers may send with a payment. */
function announced({ maxCommentLength, zaps }: LnurlParts) {
  return {
    ...(maxCommentLength > 0 && { commentAllowed: maxCommentLength }),
    ...(zaps !== null && { allowsNostr: true, nostrPubkey: zaps.pubkey }),
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

/** Discovery is counted as a request alone. */
function invoiceOrNothing({ method, query }: FastifyRequest): 'invoices' | null {
  const { amount } = query as { amount?: unknown };
  return amount !== undefined && method !== 'HEAD' ? 'invoices' : null;
}
