import type { FastifyReply } from 'fastify';
import { html } from 'htm/preact';
import type { ComponentChildren, VNode } from 'preact';
import { renderToString } from 'preact-render-to-string';
import { shortenNpub } from './elements.ts';

export interface Page {
  title: string;
  description?: string;
  /** The public URL; missing if search engines and previews must not show the page. */
  url?: string;
  /** The name of a script for the browser, without `.js`. */
  script?: string;
  /** Sources to which the script may connect besides this server (CSP `connect-src`). */
  connectSources?: string;
  /** Further elements of the HTML `head`. */
  head?: VNode;
  content: ComponentChildren;
}

export function sendPage(reply: FastifyReply, siteName: string, page: Page): FastifyReply {
  setPageHeaders(reply, page.connectSources);
  return reply.type('text/html; charset=utf-8').send(renderPage(siteName, page));
}

export function setPageHeaders(reply: FastifyReply, connectSources = ''): void {
  const policy = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    `connect-src 'self' ${connectSources}`.trim(),
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ];
  reply.headers({
    'content-security-policy': policy.join('; '),
    // The path of an invoice page contains a secret token.
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    // The browser may keep a page, but asks whether it has changed (ETag). It keeps no error, which may not last.
    'cache-control': reply.statusCode >= 400 ? 'no-store' : 'no-cache',
  });
}

function renderPage(siteName: string, page: Page): string {
  const { title, description, url, script } = page;
  return `<!doctype html>${renderToString(html`
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <title>${title} · ${siteName}</title>
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        ${description !== undefined && html`<meta name="description" content=${description} />`}
        ${url === undefined ? html`<meta name="robots" content="noindex" />` : previewMetadata(siteName, page)}
        <link rel="stylesheet" href="/assets/style.css" />
        <link rel="stylesheet" href="/assets/brand.css" />
        <link rel="icon" href="/assets/logo" />
        ${script !== undefined && html`<script type="module" src=${`/assets/${script}.js`}></script>`}
        ${page.head}
      </head>
      <body>
        <a class="skip" href="#content">Skip to content</a>
        <header>
          <a class="brand" href="/">
            <img src="/assets/logo" alt="" width="32" height="32" />
            <span>${siteName}</span>
          </a>
          <nav aria-label="Main"><a href="/account">Your account</a></nav>
        </header>
        <main id="content">${page.content}</main>
        <footer><p>Lightning addresses for Nostr, paid out as ecash.</p></footer>
      </body>
    </html>
  `)}`;
}

function previewMetadata(siteName: string, { title, description, url }: Page) {
  return html`
    <meta property="og:type" content="website" />
    <meta property="og:site_name" content=${siteName} />
    <meta property="og:title" content=${title} />
    <meta property="og:description" content=${description} />
    <meta property="og:url" content=${url} />
    <link rel="canonical" href=${url} />
  `;
}

/** Shortens the npub of an address for headings. Usernames stay complete, because a shortened one could deceive. */
export function shortenAddress(address: string): string {
  const [localPart = '', host = ''] = address.split('@');
  return localPart.startsWith('npub1') ? `${shortenNpub(localPart)}@${host}` : address;
}
