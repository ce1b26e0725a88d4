import etag from '@fastify/etag';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { RequestError } from '../../errors.ts';
import type { Logger } from '../../log.ts';
import { toAddressPrefixes } from '../../net/address-prefixes.ts';
import { mintUnavailableError } from '../../quotes/invoice-admission.ts';
import { getSendableRange, issueInvoice } from '../../quotes/issue-invoice.ts';
import { buildLnurlMetadata, MSAT_PER_SAT } from '../../quotes/lnurl-pay.ts';
import { findQuoteByVerifyToken } from '../../quotes/quote-store.ts';
import type { ResolvedAddress } from '../../recipients/recipient-directory.ts';
import { checkUsernameAvailability } from '../../usernames/register-username.ts';
import { waitAtMost } from '../../wait-at-most.ts';
import type { HttpContext } from '../context.ts';
import { isPageRequest, renderError } from '../errors.ts';
import { jsonBody } from '../schemas.ts';
import { sendStaticFile } from '../static-files.ts';
import { type AccountSettings, accountPage, collectPage } from './account-pages.ts';
import { hasUnit, type SatRange } from './amount.ts';
import { type Assets, prepareAssets } from './assets.ts';
import { type BrandingSettings, loadBranding } from './branding.ts';
import { canLoadBrowserFiles } from './browser-files.ts';
import { buildPaymentQrText } from './elements.ts';
import { describeForPeople, freeNamePage } from './error-page.ts';
import { homePage } from './home-page.ts';
import { invoicePage } from './invoice-page.ts';
import { type Site, sendPage, setPageHeaders, shortenAddress } from './layout.ts';
import { choosePageLanguage } from './page-language.ts';
import {
  type FormProblem,
  findLinkProblems,
  type Payment,
  type PaymentInput,
  validatePayment,
} from './payment-form.ts';
import { type Payee, paymentPage } from './payment-page.ts';
import { findPaymentPath } from './payment-path.ts';
import { renderPreviewImage } from './preview-image.ts';
import { removeSecretKeys } from './secret-key.ts';
import type { Message } from './translation.ts';

export interface WebSettings extends BrandingSettings, AccountSettings {
  /** Amounts that the payment page offers. */
  amountsSat: readonly number[];
}

export type WebPages = Site & AccountSettings & Pick<WebSettings, 'amountsSat'>;

/** Returns null if the files for the browser are missing. */
export async function loadWebPages(settings: WebSettings, log: Logger): Promise<WebPages | null> {
  if (!canLoadBrowserFiles()) {
    log.warn(
      { event: 'web_pages_missing' },
      'the files of the web pages are missing, so there are no pages; run "npm ci" with the development dependencies,' +
        ' or set WEB_PAGES=false',
    );
    return null;
  }
  const { signerRelay, amountsSat, mints } = settings;
  const branding = await loadBranding(settings);
  const assets = await prepareAssets(branding);
  return { ...branding, assets, signerRelay, amountsSat, mints };
}

const formField = z.string().default('');
const params = z.object({ address: z.string() });
const invoiceParams = params.extend({ token: z.string() });
const recipientForm = jsonBody({ recipient: formField });
const paymentForm = jsonBody({ amount: formField, unit: formField, comment: formField });
/** A field that occurs twice in a link is ignored. */
const linkField = formField.catch('');
const enteredAmount = z.object({ amount: linkField, unit: linkField });
const collectLink = z.object({ name: linkField });
const paymentLink = enteredAmount.extend({ comment: linkField });

/** How long a page waits for a mint. A person who sees nothing loses patience earlier than a wallet. */
const MINT_MAX_WAIT_MS = 8_000;

/** The pages for people. Forms create invoices like the LNURL route, and scripts call the public API. */
export const webRoutes: FastifyPluginAsyncZod<{ context: HttpContext; web: WebPages }> = async (
  app,
  { context, web },
) => {
  const { publicOrigins } = context;
  const findPath = (text: string) =>
    findPaymentPath(
      text,
      publicOrigins.origins.map((origin) => publicOrigins.getHost(origin)),
    );
  const config = { rateLimitCategory: 'pages' } as const;
  const formConfig = { ...config, handlesRateLimit: true } as const;
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

  const sendHomePage = (
    request: FastifyRequest,
    reply: FastifyReply,
    form: { recipient: string; problem: Message | null },
  ) => {
    const origin = publicOrigins.getOriginForRequest(request);
    const data = {
      siteName: web.siteName,
      origin,
      host: publicOrigins.getHost(origin),
      usernamePriceSat: context.usernames.policy.priceSat,
      hasZaps: context.hasZaps,
      membersOnly: context.usernames.policy.membersOnly ?? false,
      ...form,
    };
    return sendPage(reply, web, (language) => homePage(language, data));
  };

  app.get('/', { config }, (request, reply) =>
    sendHomePage(request, reply, { recipient: '', problem: null }),
  );

  app.post('/', { config: formConfig, schema: { body: recipientForm } }, (request, reply) => {
    const { body, rejection } = request;
    const recipient = removeSecretKeys(body.recipient);
    if (rejection !== null) {
      const problem = setErrorStatus(reply, rejection);
      return sendHomePage(request, reply, { recipient, problem });
    }
    const result = findPath(body.recipient);
    return 'path' in result
      ? reply.redirect(choosePageLanguage(request).link(result.path), 303)
      : sendHomePage(request, reply.code(400), { recipient, problem: result.problem });
  });

  app.get('/account', { config }, async (_request, reply) => {
    const mints = await Promise.all(web.mints.map((url) => describeOfferedMint(url, context)));
    return sendPage(reply, web, (language) => accountPage(language, web, mints, context));
  });

  app.get('/collect', { config, schema: { querystring: collectLink } }, async (request, reply) =>
    sendPage(reply, web, (language) => collectPage(language, request.query.name, context)),
  );

  const getRates = () => context.fiatRates?.getCurrent() ?? null;

  const sendPaymentPage = (
    reply: FastifyReply,
    payee: Payee,
    range: SatRange | null,
    input: PaymentInput,
    problems: readonly FormProblem[],
  ) => {
    const { maxCommentLength } = context;
    const comment = removeSecretKeys(input.comment);
    const { amountsSat } = web;
    const fiat = getRates();
    // Without its unit, the amount would be in sats.
    const amount = hasUnit(input.unit, fiat?.rates) ? removeSecretKeys(input.amount) : '';
    const form = { ...input, range, amountsSat, maxCommentLength, amount, comment, problems, fiat };
    return sendPage(reply, web, (language) => paymentPage(language, payee, form));
  };

  /** Returns the username if a visitor can get it, as the API also says. */
  const findFreeName = async (username: string) => {
    const { name, obstacle } = await checkUsernameAvailability(context.usernames, username);
    // On a server for members, a visitor cannot get a name.
    return obstacle === null && !context.usernames.policy.membersOnly ? name : null;
  };

  /** A payment link contains the amount, the comment, or both. */
  app.get(
    '/:address',
    { config, schema: { params, querystring: paymentLink } },
    async (request, reply) => {
      const { address } = request.params;
      if (address.includes('@')) {
        // People enter `pay.example/alice@pay.example`.
        const [, query = ''] = request.url.split('?', 2);
        const result = findPath(`${address}?${query}`);
        if ('path' in result) {
          return reply.redirect(choosePageLanguage(request).link(result.path));
        }
      }
      let payee: ResolvedPayee;
      try {
        payee = await resolvePayee(request, address, context);
      } catch (error) {
        const name =
          isNotFound(error) && isPageRequest(request) ? await findFreeName(address) : null;
        if (name === null) {
          throw error;
        }
        const { host } = describePayee(request, name, context);
        const { priceSat } = context.usernames.policy;
        return sendPage(reply.code(404), web, (language) =>
          freeNamePage(language, { name, host, priceSat }),
        );
      }
      const range = await waitAtMost(MINT_MAX_WAIT_MS, getSatRange(payee, context));
      const { maxCommentLength } = context;
      const problems = findLinkProblems(request.query, range, maxCommentLength, getRates()?.rates);
      return sendPaymentPage(reply, payee, range, request.query, problems);
    },
  );

  app.post(
    '/:address',
    // The longest that the fields of the page can contain, encoded.
    { config: formConfig, bodyLimit: 48 * 1024, schema: { params, body: paymentForm } },
    async (request, reply) => {
      const { body: input, rejection } = request;
      const { link } = choosePageLanguage(request);
      let payee: Payee = describePayee(request, request.params.address, context);
      let range: SatRange | null = null;
      const createInvoice = async () => {
        const resolved = await resolvePayee(request, request.params.address, context);
        payee = resolved;
        range = await getSatRange(resolved, context);
        const payment = validatePayment(input, range, context.maxCommentLength, getRates()?.rates);
        return Array.isArray(payment)
          ? payment
          : issueWebInvoice(resolved, payment, request, context);
      };
      try {
        if (rejection !== null) {
          throw rejection;
        }
        // An invoice that is created later expires unseen.
        const result = await waitAtMost(MINT_MAX_WAIT_MS, createInvoice());
        if (result === null) {
          throw mintUnavailableError();
        }
        return typeof result === 'string'
          ? reply.redirect(link(`/${payee.localPart}/invoice/${result}${describeUnit(input)}`), 303)
          : sendPaymentPage(reply.code(400), payee, range, input, result);
      } catch (error) {
        if (!(error instanceof RequestError) || isNotFound(error)) {
          throw error;
        }
        // The form keeps what the payer entered.
        const problems = [{ field: null, message: setErrorStatus(reply, error) }];
        return sendPaymentPage(reply, payee, range, input, problems);
      }
    },
  );

  app.get(
    '/:address/invoice/:token',
    { config, schema: { params: invoiceParams, querystring: enteredAmount } },
    async (request, reply) => {
      const { address, token } = request.params;
      const payee = await resolvePayee(request, address, context);
      const quote = await findQuoteByVerifyToken(context.db, token);
      if (quote?.pubkey !== payee.recipient.pubkey) {
        throw notFoundError();
      }
      const nowMs = context.clock();
      const entered = request.query;
      const data = { payee, quote, verifyToken: token, entered, fiat: getRates(), nowMs };
      return sendPage(reply, web, (language) => invoicePage(language, data));
    },
  );

  app.get('/:address/preview.png', { config, schema: { params } }, async (request, reply) => {
    const payee = await resolvePayee(request, request.params.address, context);
    const { origin, localPart, address } = payee;
    const qrText = buildPaymentQrText(origin, localPart);
    setPageHeaders(reply);
    return reply
      .header('cache-control', 'public, max-age=86400')
      .type('image/png')
      .send(await renderPreviewImage(qrText, shortenAddress(address)));
  });

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
  // A service worker is responsible for the pages below its own path.
  app.get('/service-worker.js', async (request, reply) => {
    const file = (await assets.load()).get('service-worker.js');
    if (file === undefined) {
      throw notFoundError();
    }
    setPageHeaders(reply);
    return sendStaticFile(file, request, reply);
  });
  for (const [path, file] of assets.wellKnownFiles) {
    app.get(path, (request, reply) => {
      setPageHeaders(reply);
      return sendStaticFile(file, request, reply);
    });
  }
}

/** Waits for the name of a mint for a second, because the page also works without it. */
async function describeOfferedMint(url: string, { mintInfoCache }: HttpContext) {
  const info = await waitAtMost(
    1_000,
    mintInfoCache.get(url).catch(() => null),
  );
  return { url, name: info?.name ?? null };
}

type ResolvedPayee = Payee & ResolvedAddress & { host: string };

/** Throws the same error for invalid, unknown and blocked recipients. */
async function resolvePayee(
  request: FastifyRequest,
  addressInPath: string,
  context: HttpContext,
): Promise<ResolvedPayee> {
  const resolved = await context.recipients
    .resolveAddress(addressInPath)
    .catch((error: unknown) => {
      throw error instanceof RequestError && error.code === 'invalid' ? notFoundError() : error;
    });
  const profile = context.profiles?.get(resolved.recipient.pubkey) ?? null;
  return { ...resolved, ...describePayee(request, addressInPath, context), profile };
}

function describePayee(
  request: FastifyRequest,
  addressInPath: string,
  { publicOrigins }: HttpContext,
): Payee & { host: string } {
  const localPart = addressInPath.toLowerCase();
  const origin = publicOrigins.getOriginForRequest(request);
  const host = publicOrigins.getHost(origin);
  return { localPart, address: `${localPart}@${host}`, host, origin };
}

/** Keeps an amount in a currency for the page of the invoice, which is in sats, if the payer changes it. */
function describeUnit({ amount, unit }: PaymentInput): string {
  return unit === '' || unit === 'sats' ? '' : `?${new URLSearchParams({ amount, unit })}`;
}

async function getSatRange({ recipient }: ResolvedPayee, { invoices }: HttpContext) {
  const { minMsat, maxMsat } = await getSendableRange(invoices, recipient);
  return { minSat: minMsat / MSAT_PER_SAT, maxSat: maxMsat / MSAT_PER_SAT };
}

/** Issues an invoice as the LNURL route does. Returns its verify token. Throws RequestError. */
async function issueWebInvoice(
  payee: ResolvedPayee,
  { amountSat, comment }: Payment,
  request: FastifyRequest,
  context: HttpContext,
): Promise<string> {
  const { recipient, account, tag, host } = payee;
  const { invoices, descriptionTemplate } = context;
  // Unlike the address of the payee, this one has no tag.
  const address = `${account}@${host}`;
  const details = {
    lnurlMetadata: buildLnurlMetadata(address, tag, descriptionTemplate),
    tag,
    comment,
    zapRequest: null,
    receiptRefusal: null,
  };
  const prefixes = toAddressPrefixes(request.ip);
  const order = { recipient, amountMsat: amountSat * MSAT_PER_SAT, prefixes, details };
  return (await issueInvoice(invoices, order)).verifyToken;
}

/** Prepares the response of a form that keeps what was entered. Returns what the page says about the error. */
function setErrorStatus(reply: FastifyReply, error: RequestError): Message {
  const pageError = renderError(error, 'api');
  if (pageError.retryAfterSeconds !== null) {
    reply.header('retry-after', pageError.retryAfterSeconds);
  }
  reply.code(pageError.status);
  return describeForPeople(pageError);
}

function notFoundError(): RequestError {
  return new RequestError('not_found', 'Not found.');
}

function isNotFound(error: unknown): boolean {
  return error instanceof RequestError && error.code === 'not_found';
}
