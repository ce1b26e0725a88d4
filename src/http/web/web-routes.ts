import etag from '@fastify/etag';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import type { Clock } from '../../clock.ts';
import { RequestError } from '../../errors.ts';
import { toAddressPrefixes } from '../../net/address-prefixes.ts';
import type { InvoiceIssuer } from '../../quotes/invoice-issuer.ts';
import {
  buildLnurlMetadata,
  formatLnurlText,
  MSAT_PER_SAT,
  validateComment,
} from '../../quotes/lnurl-pay.ts';
import { findQuoteByVerifyToken } from '../../quotes/quote-store.ts';
import type {
  Recipient,
  RecipientDirectory,
  ResolvedAddress,
} from '../../recipients/recipient-directory.ts';
import type { Store } from '../../store.ts';
import type { UsernameRegistrar } from '../../usernames/username-registrar.ts';
import type { PublicOrigins } from '../server.ts';
import { type StaticFile, sendStaticFile } from '../static-files.ts';
import { accountPage } from './account-page.ts';
import type { Branding } from './branding.ts';
import { loadBrowserFiles } from './browser-files.ts';
import { homePage } from './home-page.ts';
import { invoicePage } from './invoice-page.ts';
import { type Page, renderPage } from './layout.ts';
import { encodeLnurl } from './lnurl.ts';
import { setPageHeaders } from './page-headers.ts';
import { paymentPage } from './payment-page.ts';
import { findPaymentPath } from './payment-path.ts';
import { containsSecretKey, SECRET_KEY_WARNING } from './secret-key.ts';
import type { WebPages } from './web-pages.ts';

export interface WebDeps {
  web: WebPages;
  recipients: RecipientDirectory;
  invoiceIssuer: InvoiceIssuer;
  usernameRegistrar: Pick<UsernameRegistrar, 'policy'>;
  store: Store;
  publicOrigins: PublicOrigins;
  descriptionTemplate: string;
  maxCommentLength: number;
  hasZaps: boolean;
  /** Whether the account page may connect to relays without TLS. */
  allowPrivateNetworks: boolean;
  clock: Clock;
}

/** Makes the field of a form optional. */
const formField = z.string().default('');

/** The fields of a form; none if the request has no body. */
function formBody<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.preprocess((body) => body ?? {}, z.object(shape));
}

/**
 * The pages for people. They need no API of their own: forms without JavaScript create invoices like the LNURL route,
 * and scripts call the public API.
 */
export const webRoutes: FastifyPluginAsyncZod<WebDeps> = async (app, deps) => {
  const { web, publicOrigins } = deps;
  const { siteName } = web.branding;
  const config = { rateLimitCategory: 'pages' } as const;
  await app.register(etag);
  // For clients that are not browsers, errors are the same as without the pages.
  app.addHook('onSend', async (_request, reply) => {
    if (reply.statusCode >= 400) {
      reply.removeHeader('etag');
    }
  });
  parseForms(app);

  const send = (reply: FastifyReply, page: Page) => {
    setPageHeaders(reply);
    return reply.send(renderPage(siteName, page));
  };

  const renderHome = (request: FastifyRequest, problem: string | null) => {
    const origin = publicOrigins.getOriginForRequest(request);
    return homePage({
      siteName,
      host: publicOrigins.getHost(origin),
      usernamePriceSat: deps.usernameRegistrar.policy.priceSat,
      hasZaps: deps.hasZaps,
      url: `${origin}/`,
      problem,
    });
  };

  app.get('/', { config }, async (request, reply) => send(reply, renderHome(request, null)));

  app.post(
    '/',
    { config, schema: { body: formBody({ recipient: formField }) } },
    async (request, reply) => {
      const hosts = publicOrigins.origins.map((origin) => publicOrigins.getHost(origin));
      const result = findPaymentPath(request.body.recipient, hosts);
      return 'path' in result
        ? reply.redirect(result.path, 303)
        : send(reply.code(400), renderHome(request, result.problem));
    },
  );

  app.get('/account', { config }, async (_request, reply) => {
    setPageHeaders(reply, { connectSources: listRelaySources(deps.allowPrivateNetworks) });
    return reply.send(renderPage(siteName, accountPage(web.signerRelay)));
  });

  const paymentParams = z.object({ address: z.string() });

  app.get('/:address', { config, schema: { params: paymentParams } }, async (request, reply) => {
    const payee = await resolvePayee(request, request.params.address, deps);
    const form = { amount: '', comment: '', problem: null };
    return send(reply, await renderPayment(payee, form, deps));
  });

  app.post(
    '/:address',
    {
      config,
      schema: {
        params: paymentParams,
        body: formBody({ amount: formField, comment: formField }),
      },
    },
    async (request, reply) => {
      const payee = await resolvePayee(request, request.params.address, deps);
      if (Object.values(request.body).some(containsSecretKey)) {
        const form = { amount: '', comment: '', problem: SECRET_KEY_WARNING };
        return send(reply.code(400), await renderPayment(payee, form, deps));
      }
      try {
        const verifyToken = await issueInvoice(payee, request.body, request, deps);
        return reply.redirect(`/${payee.localPart}/invoice/${verifyToken}`, 303);
      } catch (error) {
        if (error instanceof RequestError && error.code === 'invalid') {
          const form = { ...request.body, problem: error.message };
          return send(reply.code(400), await renderPayment(payee, form, deps));
        }
        throw error;
      }
    },
  );

  app.get(
    '/:address/invoice/:token',
    { config, schema: { params: paymentParams.extend({ token: z.string() }) } },
    async (request, reply) => {
      const { address, token } = request.params;
      const payee = await resolvePayee(request, address, deps);
      const quote = await findQuoteByVerifyToken(deps.store.db, token);
      if (quote?.pubkey !== payee.recipient.pubkey) {
        throw notFoundError();
      }
      const page = invoicePage({
        address: payee.address,
        paymentPath: `/${payee.localPart}`,
        amountSat: quote.amountSat,
        request: quote.request,
        verifyPath: `/lnurl/verify/${token}`,
        expiresAtMs: quote.expiresAtMs,
        status: toInvoiceStatus(quote, deps.clock()),
      });
      return send(reply, page);
    },
  );

  serveAssets(app, web.branding);
};

function parseForms(app: FastifyInstance): void {
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    (_request, body, done) => done(null, Object.fromEntries(new URLSearchParams(`${body}`))),
  );
}

function serveAssets(app: FastifyInstance, { logo, styleSheet }: Branding): void {
  let loading: Promise<ReadonlyMap<string, StaticFile>> | null = null;
  const loadFiles = async () =>
    new Map([...(await loadBrowserFiles()), ['logo', logo], ['brand.css', styleSheet]]);
  app.get<{ Params: { file: string } }>('/assets/:file', async (request, reply) => {
    // Requests that arrive meanwhile wait, too. After a failure, the next request tries again.
    loading ??= loadFiles().catch((error: unknown) => {
      loading = null;
      throw error;
    });
    const file = (await loading).get(request.params.file);
    if (file === undefined) {
      throw notFoundError();
    }
    setPageHeaders(reply);
    return sendStaticFile(file, request, reply);
  });
}

/** The sources of a remote signer's relays. The user chooses them, so any host is allowed. */
function listRelaySources(allowInsecure: boolean): string[] {
  return allowInsecure ? ['wss:', 'ws:'] : ['wss:'];
}

interface Payee extends ResolvedAddress {
  /** In lower case, with the tag. */
  localPart: string;
  /** The Lightning address, with the tag. */
  address: string;
  /** The host of the address. */
  host: string;
  /** The public origin of the request. */
  origin: string;
}

/** Throws the same error for invalid, unknown and blocked recipients. */
async function resolvePayee(
  request: FastifyRequest,
  name: string,
  { recipients, publicOrigins }: WebDeps,
): Promise<Payee> {
  const resolved = await recipients.resolveAddress(name).catch((error: unknown) => {
    throw error instanceof RequestError && error.code === 'invalid' ? notFoundError() : error;
  });
  const localPart = name.toLowerCase();
  const origin = publicOrigins.getOriginForRequest(request);
  const host = publicOrigins.getHost(origin);
  return { ...resolved, localPart, address: `${localPart}@${host}`, host, origin };
}

async function getSatRange(recipient: Recipient, { invoiceIssuer }: WebDeps) {
  const { minMsat, maxMsat } = await invoiceIssuer.getSendableRange(recipient);
  return { minSat: minMsat / MSAT_PER_SAT, maxSat: maxMsat / MSAT_PER_SAT };
}

/** Issues an invoice as the LNURL route does. Returns its verify token. Throws RequestError. */
async function issueInvoice(
  { recipient, account, tag, host }: Payee,
  { amount, comment }: { amount: string; comment: string },
  request: FastifyRequest,
  deps: WebDeps,
): Promise<string> {
  const { invoiceIssuer, descriptionTemplate, maxCommentLength } = deps;
  const { minSat, maxSat } = await getSatRange(recipient, deps);
  const amountSat = /^\d{1,15}$/.test(amount.trim()) ? Number(amount) : Number.NaN;
  if (!(amountSat >= minSat && amountSat <= maxSat)) {
    const [min, max] = [minSat, maxSat].map((limit) => limit.toLocaleString('en'));
    throw new RequestError('invalid', `Enter a whole number from ${min} to ${max}.`);
  }
  const payer = { addressPrefixes: toAddressPrefixes(request.ip) };
  const address = `${account}@${host}`;
  const invoice = await invoiceIssuer.issue(recipient, amountSat * MSAT_PER_SAT, payer, () => ({
    lnurlMetadata: buildLnurlMetadata(address, tag, descriptionTemplate),
    plainText: formatLnurlText(address, descriptionTemplate),
    tag,
    comment: validateComment(comment, maxCommentLength),
    zapRequest: null,
    receiptRefusal: null,
  }));
  return invoice.verifyToken;
}

async function renderPayment(
  { recipient, localPart, address, origin }: Payee,
  form: { amount: string; comment: string; problem: string | null },
  deps: WebDeps,
): Promise<Page> {
  return paymentPage({
    address,
    lnurl: encodeLnurl(`${origin}/.well-known/lnurlp/${localPart}`),
    url: `${origin}/${localPart}`,
    path: `/${localPart}`,
    ...(await getSatRange(recipient, deps)),
    maxCommentLength: deps.maxCommentLength,
    ...form,
  });
}

function toInvoiceStatus(quote: { state: string; expiresAtMs: number }, nowMs: number) {
  if (quote.state === 'PAID' || quote.state === 'ISSUED') {
    return 'paid';
  }
  return quote.expiresAtMs > nowMs ? 'waiting' : 'expired';
}

function notFoundError(): RequestError {
  return new RequestError('not_found', 'Not found.');
}
