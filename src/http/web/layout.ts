import { html } from 'htm/preact';
import type { ComponentChildren, VNode } from 'preact';
import { renderToString } from 'preact-render-to-string';
import { encodeQrCode, MAX_QR_CODE_BYTES } from './qr-code.ts';

export interface Page {
  title: string;
  /** For search engines and for previews of shared links (Open Graph). */
  description?: string;
  /** The public URL of the page, if previews and search engines may show it. */
  url?: string;
  /** The name of a file in browser/ without extension. */
  script?: string;
  head?: VNode;
  content: ComponentChildren;
}

/** Renders a whole document. All texts are escaped by the library. */
export function renderPage(siteName: string, page: Page): string {
  const { title, description, url, script } = page;
  return `<!doctype html>${renderToString(html`
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <title>${title} · ${siteName}</title>
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        ${url === undefined && html`<meta name="robots" content="noindex" />`}
        ${description !== undefined && html`<meta name="description" content=${description} />`}
        ${url !== undefined && html`<${OpenGraph} ...${{ siteName, title, description, url }} />`}
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

interface OpenGraphProps {
  siteName: string;
  title: string;
  description: string | undefined;
  url: string;
}

function OpenGraph({ siteName, title, description = '', url }: OpenGraphProps) {
  return html`
    <meta property="og:type" content="website" />
    <meta property="og:site_name" content=${siteName} />
    <meta property="og:title" content=${title} />
    <meta property="og:description" content=${description} />
    <meta property="og:url" content=${url} />
    <link rel="canonical" href=${url} />
  `;
}

/** A QR code of an ASCII text, always dark on white, as scanners expect. */
export function QrCode({ text, label }: { text: string; label: string }) {
  // Mints choose the length of invoices.
  if (text.length > MAX_QR_CODE_BYTES) {
    return html`<p class="hint">This text is too long for a QR code.</p>`;
  }
  const { path, viewBox } = encodeQrCode(text);
  return html`
    <svg class="qr" role="img" aria-label=${label} viewBox=${viewBox} shape-rendering="crispEdges">
      <path d=${path} />
    </svg>
  `;
}

interface CopyableTextProps {
  id: string;
  text: string;
  label: string;
  children?: ComponentChildren;
}

/** A text to copy, with a button that `common.ts` shows. */
export function CopyableText({ id, text, label, children }: CopyableTextProps) {
  return html`
    <div class="copyable">
      <code id=${id} class="breakable">${text}</code>
      ${children}
      <button type="button" class="secondary" data-copy=${id} hidden>${label}</button>
    </div>
  `;
}

/** An amount, which `common.ts` formats in the user's language. */
export function Sats({ amount }: { amount: number }) {
  const unit = amount === 1 ? 'sat' : 'sats';
  return html`<data value=${amount} data-sats>${amount.toLocaleString('en')}</data> ${unit}`;
}

const NPUB_START_LENGTH = 12;
const NPUB_END_LENGTH = 6;

/** Shortens the npub of an address for headings. Usernames stay complete, because a shortened one could deceive. */
export function shortenAddress(address: string): string {
  const [localPart = '', host = ''] = address.split('@');
  return localPart.startsWith('npub1')
    ? `${localPart.slice(0, NPUB_START_LENGTH)}…${localPart.slice(-NPUB_END_LENGTH)}@${host}`
    : address;
}
