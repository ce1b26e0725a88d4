import etag from '@fastify/etag';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { html } from 'htm/preact';
import { z } from 'zod';
import { RequestError } from '../../errors.ts';
import type { Logger } from '../../log.ts';
import { toAddressPrefixes } from '../../net/address-prefixes.ts';
import { getSendableRange, issueInvoice } from '../../quotes/issue-invoice.ts';
import {
  buildLnurlMetadata,
  formatLnurlText,
  MSAT_PER_SAT,
  validateComment,
} from '../../quotes/lnurl-pay.ts';
import { findQuoteByVerifyToken } from '../../quotes/quote-store.ts';
import type { Recipient, ResolvedAddress } from '../../recipients/recipient-directory.ts';
import type { HttpContext } from '../context.ts';
import { type StaticFile, sendStaticFile } from '../static-files.ts';
import { type Branding, type BrandingSettings, loadBranding } from './branding.ts';
import { canLoadBrowserFiles, loadBrowserFiles } from './browser-files.ts';
import { homePage } from './home-page.ts';
import { invoicePage } from './invoice-page.ts';
import { type Page, renderPage } from './layout.ts';
import { encodeLnurl } from './lnurl.ts';
import { setPageHeaders } from './page-headers.ts';
import { paymentPage } from './payment-page.ts';
import { findPaymentPath } from './payment-path.ts';
import { containsSecretKey, SECRET_KEY_WARNING } from './secret-key.ts';

export interface WebSettings extends BrandingSettings {
  /** The relay through which remote signers connect to the account page (NIP-46). */
  signerRelay: string;
}

export interface WebPages extends Pick<WebSettings, 'signerRelay'> {
  branding: Branding;
}

/** Returns null if the operator switched the pages off, or the files for the browser are missing. */
export async function loadWebPages(
  settings: WebSettings | null,
  log: Logger,
): Promise<WebPages | null> {
  if (settings === null) {
    return null;
  }
  if (!canLoadBrowserFiles()) {
    log.warn(
      { event: 'web_pages_missing' },
      'the files of the web pages are missing, so there are no pages; run "npm run build" with the development' +
        ' dependencies, or set WEB_PAGES=false',
    );
    return null;
  }
  return { branding: await loadBranding(settings), signerRelay: settings.signerRelay };
}

const formField = z.string().default('');

/** The fields of a form; none if the request has no body. */
function formBody<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.preprocess((body) => body ?? {}, z.object(shape));
}

/**
 * The pages for people. They need no API of their own: forms without JavaScript create invoices like the LNURL route,
 * and scripts call the public API.
 */
export const webRoutes: FastifyPluginAsyncZod<{ context: HttpContext; web: WebPages }> = async (
  app,
  { context, web },
) => {
  const { publicOrigins } = context;
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
      usernamePriceSat: context.usernames.policy.priceSat,
      hasZaps: context.hasZaps,
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
    setPageHeaders(reply, { connectSources: listRelaySources(context.allowPrivateNetworks) });
    return reply.send(renderPage(siteName, accountPage(web.signerRelay)));
  });

  const paymentParams = z.object({ address: z.string() });

  app.get('/:address', { config, schema: { params: paymentParams } }, async (request, reply) => {
    const payee = await resolvePayee(request, request.params.address, context);
    const form = { amount: '', comment: '', problem: null };
    return send(reply, await renderPayment(payee, form, context));
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
      const payee = await resolvePayee(request, request.params.address, context);
      if (Object.values(request.body).some(containsSecretKey)) {
        const form = { amount: '', comment: '', problem: SECRET_KEY_WARNING };
        return send(reply.code(400), await renderPayment(payee, form, context));
      }
      try {
        const verifyToken = await issueWebInvoice(payee, request.body, request, context);
        return reply.redirect(`/${payee.localPart}/invoice/${verifyToken}`, 303);
      } catch (error) {
        if (error instanceof RequestError && error.code === 'invalid') {
          const form = { ...request.body, problem: error.message };
          return send(reply.code(400), await renderPayment(payee, form, context));
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
      const payee = await resolvePayee(request, address, context);
      const quote = await findQuoteByVerifyToken(context.db, token);
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
        status: toInvoiceStatus(quote, context.clock()),
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

/** @param signerRelay the relay through which remote signers connect (NIP-46) */
function accountPage(signerRelay: string): Page {
  return {
    title: 'Your account',
    script: 'account',
    content: html`
      <div id="account" data-signer-relay=${signerRelay}>
        <h1>Your account</h1>
        <noscript>
          <p class="problem">
            Signing in with your Nostr key needs JavaScript. Payment pages work without it.
          </p>
        </noscript>
      </div>
    `,
  };
}

/** The sources of a remote signer's relays. The user chooses them, so any host is allowed. */
function listRelaySources(allowInsecure: boolean): string[] {
  return allowInsecure ? ['wss:', 'ws:'] : ['wss:'];
}

interface Payee extends ResolvedAddress {
  /** In lower case, with the tag. */
  localPart: string;
  address: string;
  host: string;
  origin: string;
}

/** Throws the same error for invalid, unknown and blocked recipients. */
async function resolvePayee(
  request: FastifyRequest,
  name: string,
  { recipients, publicOrigins }: HttpContext,
): Promise<Payee> {
  const resolved = await recipients.resolveAddress(name).catch((error: unknown) => {
    throw error instanceof RequestError && error.code === 'invalid' ? notFoundError() : error;
  });
  const localPart = name.toLowerCase();
  const origin = publicOrigins.getOriginForRequest(request);
  const host = publicOrigins.getHost(origin);
  return { ...resolved, localPart, address: `${localPart}@${host}`, host, origin };
}

async function getSatRange(recipient: Recipient, { invoices }: HttpContext) {
  const { minMsat, maxMsat } = await getSendableRange(invoices, recipient);
  return { minSat: minMsat / MSAT_PER_SAT, maxSat: maxMsat / MSAT_PER_SAT };
}

/** Issues an invoice as the LNURL route does. Returns its verify token. Throws RequestError. */
async function issueWebInvoice(
  { recipient, account, tag, host }: Payee,
  { amount, comment }: { amount: string; comment: string },
  request: FastifyRequest,
  context: HttpContext,
): Promise<string> {
  const { invoices, descriptionTemplate, maxCommentLength } = context;
  const { minSat, maxSat } = await getSatRange(recipient, context);
  const amountSat = /^\d{1,15}$/.test(amount.trim()) ? Number(amount) : Number.NaN;
  if (!(amountSat >= minSat && amountSat <= maxSat)) {
    const [min, max] = [minSat, maxSat].map((limit) => limit.toLocaleString('en'));
    throw new RequestError('invalid', `Enter a whole number from ${min} to ${max}.`);
  }
  const prefixes = toAddressPrefixes(request.ip);
  const address = `${account}@${host}`;
  const text = {
    lnurlMetadata: buildLnurlMetadata(address, tag, descriptionTemplate),
    plainText: formatLnurlText(address, descriptionTemplate),
    tag,
    comment: validateComment(comment, maxCommentLength),
    zapRequest: null,
    receiptRefusal: null,
  };
  const order = { recipient, amountMsat: amountSat * MSAT_PER_SAT, prefixes, text };
  const invoice = await issueInvoice(invoices, order);
  return invoice.verifyToken;
}

async function renderPayment(
  { recipient, localPart, address, origin }: Payee,
  form: { amount: string; comment: string; problem: string | null },
  context: HttpContext,
): Promise<Page> {
  return paymentPage({
    address,
    lnurl: encodeLnurl(`${origin}/.well-known/lnurlp/${localPart}`),
    url: `${origin}/${localPart}`,
    path: `/${localPart}`,
    ...(await getSatRange(recipient, context)),
    maxCommentLength: context.maxCommentLength,
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
