import type { FastifyReply } from 'fastify';
import { html } from 'htm/preact';
import type { ErrorCode } from '../../errors.ts';
import type { PageError } from '../errors.ts';
import { type Page, type Site, sendPage } from './layout.ts';
import type { PageLanguage } from './page-language.ts';
import type { Message, TextKey } from './translation.ts';

const TITLES: Record<number, TextKey> = {
  404: 'error.notFound',
  429: 'error.rateLimited',
  500: 'error.unavailable',
  503: 'error.unavailable',
};

/** Explains an error to a person. The text of a 404 is the same for unknown pages and unknown or blocked recipients. */
export function sendErrorPage(reply: FastifyReply, site: Site, error: PageError): void {
  const { status } = error;
  const isTemporary = status === 429 || status >= 500;
  // A link cannot send a form again.
  const isForm = reply.request.method === 'POST';
  const { key, values } = describeForPeople(error);
  sendPage(reply.code(status), site, ({ t, link }) => ({
    title: t(TITLES[status] ?? 'error.other'),
    content: html`
      <section class="card narrow">
        <h1>${t(TITLES[status] ?? 'error.other')}</h1>
        <p>${t(key, values)}</p>
        <p class="row">
          ${isTemporary && !isForm && html`<a class="button" href="">${t('error.tryAgain')}</a>`}
          <a class=${isTemporary ? 'button secondary' : 'button'} href=${link('/')}>${t('error.startPage')}</a>
        </p>
      </section>
    `,
  }));
}

/** The page of a username that has no owner yet. */
export function freeNamePage(
  { t, rich, link }: PageLanguage,
  offer: { name: string; host: string; priceSat: number | null },
): Page {
  const { name, host, priceSat } = offer;
  const address = html`<strong class="breakable">${name}@${host}</strong>`;
  return {
    title: t('freeName.title', { name }),
    content: html`
      <section class="card narrow">
        <h1>${t('freeName.title', { name })}</h1>
        <p>${rich('freeName.forPayers', { address })}</p>
        <p>${priceSat ? t('freeName.price', { price: priceSat }) : t('freeName.freeOfCharge')}</p>
        <p class="row">
          <a class="button" href=${link(`/account?name=${name}`)}>${t('freeName.get')}</a>
          <a class="button secondary" href=${link('/')}>${t('error.startPage')}</a>
        </p>
      </section>
    `,
  };
}

const TEXTS: { readonly [code in ErrorCode]?: TextKey } = {
  not_found: 'error.notFoundText',
  rate_limited: 'problem.rateLimited',
  unavailable: 'problem.mint',
  database_unavailable: 'problem.server',
  internal: 'problem.internal',
};

/** Describes an error of the API in the language of a page. Its own message is always in English. */
export function describeForPeople(error: PageError): Message {
  const { code, message, retryAfterSeconds, errorId } = error;
  const values = { message, seconds: retryAfterSeconds ?? 1, id: errorId ?? '' };
  return { key: TEXTS[code] ?? 'problem.other', values };
}
