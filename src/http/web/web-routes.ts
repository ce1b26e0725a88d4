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
import type { ResolvedAddress } from '../../recipients/recipient-directory.ts';
import type { HttpContext } from '../context.ts';
import { jsonBody } from '../schemas.ts';
import { sendStaticFile } from '../static-files.ts';
import { type Assets, prepareAssets } from './assets.ts';
import { type BrandingSettings, loadBranding } from './branding.ts';
import { canLoadBrowserFiles } from './browser-files.ts';
import { homePage } from './home-page.ts';
import { invoicePage } from './invoice-page.ts';
import { type Page, type Site, sendPage, setPageHeaders } from './layout.ts';
import { type Payee, paymentPage } from './payment-page.ts';
import { findPaymentPath } from './payment-path.ts';
import { containsSecretKey, removeSecretKeys, SECRET_KEY_WARNING } from './secret-key.ts';

export interface WebSettings extends BrandingSettings {
  signerRelay: string;
}

export type WebPages = Site & Pick<WebSettings, 'signerRelay'>;

/** Returns null if the files for the browser are missing. */
export async function loadWebPages(settings: WebSettings, log: Logger): Promise<WebPages | null> {
  if (!canLoadBrowserFiles()) {
    log.warn(
      { event: 'web_pages_missing' },
      'the files of the web pages are missing, so there are no pages; run "npm run build" with the development' +
        ' dependencies, or set WEB_PAGES=false',
    );
    return null;
  }
  const branding = await loadBranding(settings);
  const assets = await prepareAssets(branding);
  return { ...branding, assets, signerRelay: settings.signerRelay };
}

const formField = z.string().default('');
const params = z.object({ address: z.string() });
const invoiceParams = params.extend({ token: z.string() });
const recipientForm = jsonBody({ recipient: formField });
const paymentForm = jsonBody({ amount: formField, comment: formField });

/** The pages for people. Forms create invoices like the LNURL route, and scripts call the public API. */
export const webRoutes: FastifyPluginAsyncZod<{ context: HttpContext; web: WebPages }> = async (
  app,
  { context, web },
) => {
  const { publicOrigins } = context;
  const config = { rateLimitCategory: 'pages' } as const;
  await app.register(etag);
  // Errors have no ETag, so that clients that are not browsers get the same response as without the web pages.
  app.addHook('onSend', async (_request, reply) => {
    if (reply.statusCode >= 400) {
      reply.removeHeader('etag');
    }
  });
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    (_request, body, done) => done(null, Object.fromEntries(new URLSearchParams(`${body}`))),
  );

  const sendHomePage = (request: FastifyRequest, reply: FastifyReply, problem: string | null) => {
    const origin = publicOrigins.getOriginForRequest(request);
    const page = homePage({
      siteName: web.siteName,
      origin,
      host: publicOrigins.getHost(origin),
      usernamePriceSat: context.usernames.policy.priceSat,
      hasZaps: context.hasZaps,
      problem,
    });
    return sendPage(reply, web, page);
  };

  app.get('/', { config }, (request, reply) => sendHomePage(request, reply, null));

  app.post('/', { config, schema: { body: recipientForm } }, async (request, reply) => {
    const hosts = publicOrigins.origins.map((origin) => publicOrigins.getHost(origin));
    const result = findPaymentPath(request.body.recipient, hosts);
    return 'path' in result
      ? reply.redirect(result.path, 303)
      : sendHomePage(request, reply.code(400), result.problem);
  });

  app.get('/account', { config }, async (_request, reply) =>
    sendPage(reply, web, accountPage(web.signerRelay, context)),
  );

  const sendPaymentPage = async (
    reply: FastifyReply,
    payee: ResolvedPayee,
    form: { amount: string; comment: string; problem: string | null },
  ) => {
    const range = await getSatRange(payee, context);
    const { maxCommentLength } = context;
    return sendPage(reply, web, paymentPage(payee, { ...range, maxCommentLength, ...form }));
  };

  app.get('/:address', { config, schema: { params } }, async (request, reply) => {
    const payee = await resolvePayee(request, request.params.address, context);
    return sendPaymentPage(reply, payee, { amount: '', comment: '', problem: null });
  });

  app.post(
    '/:address',
    { config, schema: { params, body: paymentForm } },
    async (request, reply) => {
      const { amount, comment } = request.body;
      const payee = await resolvePayee(request, request.params.address, context);
      try {
        const verifyToken = await issueWebInvoice(payee, request.body, request, context);
        return reply.redirect(`/${payee.localPart}/invoice/${verifyToken}`, 303);
      } catch (error) {
        if (!(error instanceof RequestError && error.code === 'invalid')) {
          throw error;
        }
        return sendPaymentPage(reply.code(400), payee, {
          amount: removeSecretKeys(amount),
          comment: removeSecretKeys(comment),
          problem: error.message,
        });
      }
    },
  );

  app.get(
    '/:address/invoice/:token',
    { config, schema: { params: invoiceParams } },
    async (request, reply) => {
      const { address, token } = request.params;
      const payee = await resolvePayee(request, address, context);
      const quote = await findQuoteByVerifyToken(context.db, token);
      if (quote?.pubkey !== payee.recipient.pubkey) {
        throw notFoundError();
      }
      const nowMs = context.clock();
      return sendPage(reply, web, invoicePage({ payee, quote, verifyToken: token, nowMs }));
    },
  );

  serveAssets(app, web.assets);
};

function serveAssets(app: FastifyInstance, assets: Assets): void {
  type Params = { version: string; file: string };
  app.get<{ Params: Params }>('/assets/:version/:file', async (request, reply) => {
    const { params } = request;
    const file = (await assets.load()).get(params.file);
    if (file === undefined) {
      throw notFoundError();
    }
    setPageHeaders(reply);
    // During an upgrade of several processes, a page of another version may get a file of this one. Nobody keeps it.
    const isCurrent = params.version === assets.version;
    reply.header('cache-control', isCurrent ? 'public, max-age=31536000, immutable' : 'no-store');
    return sendStaticFile(file, request, reply);
  });
  for (const [path, file] of assets.wellKnownFiles) {
    app.get(path, (request, reply) => {
      setPageHeaders(reply);
      return sendStaticFile(file, request, reply);
    });
  }
}

function accountPage(signerRelay: string, { allowPrivateNetworks, usernames }: HttpContext): Page {
  const graceDays = usernames.policy.graceMs / 86_400_000;
  return {
    title: 'Your account',
    script: 'account',
    // Any relay, because the user chooses those of a remote signer.
    connectSources: allowPrivateNetworks ? 'wss: ws:' : 'wss:',
    content: html`
      <div id="account" data-signer-relay=${signerRelay} data-grace-days=${graceDays}>
        <h1>Your account</h1>
        <p class="loading">Loading…</p>
        <p class="problem late" role="alert">
          This page has not started. Check your internet connection, allow scripts for this site, and
          reload the page.
        </p>
        <noscript>
          <p class="problem">
            Signing in with your Nostr key needs JavaScript. Payment pages work without it.
          </p>
        </noscript>
      </div>
    `,
  };
}

type ResolvedPayee = Payee & ResolvedAddress & { host: string };

/** Throws the same error for invalid, unknown and blocked recipients. */
async function resolvePayee(
  request: FastifyRequest,
  addressInPath: string,
  { recipients, publicOrigins }: HttpContext,
): Promise<ResolvedPayee> {
  const resolved = await recipients.resolveAddress(addressInPath).catch((error: unknown) => {
    throw error instanceof RequestError && error.code === 'invalid' ? notFoundError() : error;
  });
  const localPart = addressInPath.toLowerCase();
  const origin = publicOrigins.getOriginForRequest(request);
  const host = publicOrigins.getHost(origin);
  return { ...resolved, localPart, address: `${localPart}@${host}`, host, origin };
}

async function getSatRange({ recipient }: ResolvedPayee, { invoices }: HttpContext) {
  const { minMsat, maxMsat } = await getSendableRange(invoices, recipient);
  return { minSat: minMsat / MSAT_PER_SAT, maxSat: maxMsat / MSAT_PER_SAT };
}

/** Issues an invoice as the LNURL route does. Returns its verify token. Throws RequestError. */
async function issueWebInvoice(
  payee: ResolvedPayee,
  { amount, comment }: { amount: string; comment: string },
  request: FastifyRequest,
  context: HttpContext,
): Promise<string> {
  const { recipient, account, tag, host } = payee;
  const { invoices, descriptionTemplate, maxCommentLength } = context;
  if (containsSecretKey(amount) || containsSecretKey(comment)) {
    throw new RequestError('invalid', SECRET_KEY_WARNING);
  }
  const { minSat, maxSat } = await getSatRange(payee, context);
  const amountSat = Number(amount);
  const isWholeNumber = /^\d{1,15}$/.test(amount.trim());
  if (!isWholeNumber || amountSat < minSat || amountSat > maxSat) {
    const [min, max] = [minSat, maxSat].map((limit) => limit.toLocaleString('en'));
    throw new RequestError('invalid', `Enter a whole number from ${min} to ${max}.`);
  }
  // Unlike the address of the payee, this one has no tag.
  const address = `${account}@${host}`;
  const details = {
    lnurlMetadata: buildLnurlMetadata(address, tag, descriptionTemplate),
    plainText: formatLnurlText(address, descriptionTemplate),
    tag,
    comment: validateComment(comment, maxCommentLength),
    zapRequest: null,
    receiptRefusal: null,
  };
  const prefixes = toAddressPrefixes(request.ip);
  const order = { recipient, amountMsat: amountSat * MSAT_PER_SAT, prefixes, details };
  return (await issueInvoice(invoices, order)).verifyToken;
}

function notFoundError(): RequestError {
  return new RequestError('not_found', 'Not found.');
}
