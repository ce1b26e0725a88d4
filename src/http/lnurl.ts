import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { clientNetwork } from '../domain/client-network.ts';
import { lnurlMetadata } from '../domain/lnurl.ts';
import type { IssueInvoice } from '../usecases/issue-invoice.ts';
import type { PaymentTerms } from '../usecases/payment-terms.ts';
import type { Recipients } from '../usecases/recipients.ts';
import type { PublicHost } from './public-host.ts';
import { queryInteger } from './schemas.ts';

interface LnurlParts {
  recipients: Recipients;
  paymentTerms: PaymentTerms;
  issueInvoice: IssueInvoice;
  publicHost: PublicHost;
  lnurlText: string;
}

const params = z.object({ user: z.string() });
const query = z.object({ amount: queryInteger(1).optional() });

/** `GET /.well-known/lnurlp/{user}`: discovery, and with `amount` an invoice (LUD-06, LUD-16). */
export const lnurlRoutes: FastifyPluginAsync<LnurlParts> = async (app, parts) => {
  app
    .withTypeProvider<ZodTypeProvider>()
    .get(
      '/.well-known/lnurlp/:user',
      { schema: { params, querystring: query }, config: { countedAs: invoiceOrNothing } },
      async (request) => {
        const user = request.params.user.toLowerCase();
        const { amount } = request.query;
        const origin = parts.publicHost.originFor(request);
        const recipient = await parts.recipients.byAddress(request.params.user);
        // Who asks for the head alone wants no invoice.
        if (amount !== undefined && request.method !== 'HEAD') {
          const invoice = await parts.issueInvoice.issue(recipient, amount, {
            network: clientNetwork(request.ip),
          });
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
          metadata: lnurlMetadata(`${user}@${new URL(origin).host}`, parts.lnurlText),
        };
      },
    );
};

/** Discovery is counted as a request alone. */
function invoiceOrNothing({ method, query }: FastifyRequest): 'invoices' | null {
  const { amount } = query as { amount?: unknown };
  return amount !== undefined && method !== 'HEAD' ? 'invoices' : null;
}
