import type { FastifyReply } from 'fastify';
import { html } from 'htm/preact';
import type { PageError } from '../errors.ts';
import { Sats } from './elements.ts';
import { type Page, type Site, sendPage } from './layout.ts';

const TITLES: Record<number, string> = {
  404: 'Nothing here',
  429: 'Too many requests',
  500: 'Not available right now',
  503: 'Not available right now',
};

/** Explains an error to a person. The text of a 404 is the same for unknown pages and unknown or blocked recipients. */
export function sendErrorPage(reply: FastifyReply, site: Site, error: PageError): void {
  const { status, message } = error;
  const isTemporary = status === 429 || status >= 500;
  // A link cannot send a form again.
  const isForm = reply.request.method === 'POST';
  const title = TITLES[status] ?? 'Something went wrong';
  const content = html`
    <section class="card narrow">
      <h1>${title}</h1>
      <p>${status === 404 ? 'There is no page and no recipient at this address.' : describeForPeople(message)}</p>
      ${isTemporary && isForm && html`<p>Go back in your browser to find what you entered.</p>`}
      <p class="row">
        ${isTemporary && !isForm && html`<a class="button" href="">Try again</a>`}
        <a class=${isTemporary ? 'button secondary' : 'button'} href="/">Go to the start page</a>
      </p>
    </section>
  `;
  sendPage(reply.code(status), site, { title, content });
}

/** The page of a username that has no owner yet. */
export function freeNamePage(offer: { name: string; host: string; priceSat: number | null }): Page {
  const { name, host, priceSat } = offer;
  return {
    title: `${name} is free`,
    content: html`
      <section class="card narrow">
        <h1>${name} is free</h1>
        <p>
          If you want to pay someone, check the
          address: <strong class="breakable">${name}@${host}</strong> has no owner yet.
        </p>
        <p>
          If you have a Nostr key, you can make it your own Lightning address.${' '}
          ${priceSat ? html`The name costs <${Sats} amount=${priceSat} />.` : 'The name is free of charge.'}
        </p>
        <p class="row">
          <a class="button" href=${`/account?name=${name}`}>Get this name</a>
          <a class="button secondary" href="/">Go to the start page</a>
        </p>
      </section>
    `,
  };
}

/** On a page, "this address" would seem to be a Lightning address. */
export function describeForPeople(message: string): string {
  return message.replace('from this address', 'from your internet address');
}
