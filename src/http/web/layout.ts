import { gzipSync } from 'node:zlib';
import type { FastifyReply } from 'fastify';
import { html } from 'htm/preact';
import type { ComponentChildren, VNode } from 'preact';
import { renderToString } from 'preact-render-to-string';
import { VERSION } from '../../version.ts';
import { acceptsGzip } from '../static-files.ts';
import type { Assets } from './assets.ts';
import { type Branding, COLOR_SCHEMES } from './branding.ts';
import { shortenNpub } from './elements.ts';
import { choosePageLanguage, type PageLanguage } from './page-language.ts';
import type { Texts } from './translation.ts';

/** What all pages share. */
export type Site = Branding & { assets: Assets };

export interface Page {
  title: string;
  description?: string;
  /** The public URL; missing if search engines and previews must not show the page. */
  url?: string;
  /** The URL of a large picture for previews of links; by default, they show the icon of the site. */
  previewImage?: string;
  /** The name of a script for the browser, without `.js`. */
  script?: string;
  /** How the keys of texts start that the script needs, besides `script.common.` and `script.<name>.` */
  scriptTexts?: readonly string[];
  /** Sources to which the script may connect besides this server (CSP `connect-src`). */
  connectSources?: string;
  /** Further elements of the HTML `head`. */
  head?: VNode;
  content: ComponentChildren;
}

/**
 * Sends a page, compressed if the browser accepts it. The length of a compressed page can reveal a secret on it to an
 * attacker who makes a victim's browser request it again and again with guesses in its text (BREACH). Pages are safe,
 * because browsers send no credentials with requests for them: the only secret on a page is the path of an invoice page,
 * without which an attacker cannot make a browser request that page. Do not compress a page that depends on a cookie.
 */
export function sendPage(
  reply: FastifyReply,
  site: Site,
  createPage: (language: PageLanguage) => Page,
): FastifyReply {
  const language = choosePageLanguage(reply.request);
  const page = createPage(language);
  setPageHeaders(reply, page.connectSources);
  reply.header('vary', 'Accept-Encoding, Accept-Language').type('text/html; charset=utf-8');
  const text = renderPage(site, page, language);
  return acceptsGzip(reply.request)
    ? reply.header('content-encoding', 'gzip').send(gzipSync(text))
    : reply.send(text);
}

export function setPageHeaders(reply: FastifyReply, connectSources = ''): void {
  const policy = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "manifest-src 'self'",
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
    // The browser may keep a page, but asks whether it has changed (ETag). It keeps no error, which may not last. Some
    // proxies would replace Lightning addresses, which look like e-mail addresses, by a script that shows them.
    'cache-control': `${reply.statusCode >= 400 ? 'no-store' : 'no-cache'}, no-transform`,
  });
}

function renderPage(site: Site, page: Page, language: PageLanguage): string {
  const { siteName, logo, icons, assets } = site;
  const { t, link } = language;
  const { title, description, url, script } = page;
  const { light, dark } = COLOR_SCHEMES;
  return `<!doctype html>${renderToString(html`
    <html lang=${language.language}>
      <head>
        <meta charset="utf-8" />
        <title>${title} · ${siteName}</title>
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="theme-color" content=${light.background} media="(prefers-color-scheme: light)" />
        <meta name="theme-color" content=${dark.background} media="(prefers-color-scheme: dark)" />
        ${description !== undefined && html`<meta name="description" content=${description} />`}
        ${url === undefined ? html`<meta name="robots" content="noindex" />` : previewMetadata(site, page)}
        <link rel="stylesheet" href=${assets.getPath('style.css')} />
        <link rel="icon" href="/favicon.ico" />
        <link rel="icon" href=${assets.getPath(logo.name)} sizes="any" />
        ${icons.appleTouchIcon && html`<link rel="apple-touch-icon" href="/apple-touch-icon.png" />`}
        <link rel="manifest" href=${assets.getPath('manifest.webmanifest')} />
        ${script !== undefined && html`<${Script} path=${assets.getPath(`${script}.js`)} texts=${pickScriptTexts(language, page)} />`}
        ${page.head}
      </head>
      <body>
        <a class="skip" href="#content">${t('site.skip')}</a>
        <header>
          <a class="brand" href=${link('/')}>
            <img src=${assets.getPath(logo.name)} alt="" width="32" height="32" />
            <span>${siteName}</span>
          </a>
          <nav aria-label=${t('site.mainNavigation')}>
            <a href=${link('/account')} aria-current=${script === 'account' ? 'page' : undefined}>${t('site.account')}</a>
          </nav>
        </header>
        <main id="content">${page.content}</main>
        <footer>
          <p>${t('site.slogan')}</p>
          <nav aria-label=${t('site.languages')}>
            ${language.choices.map(
              ({ code, name, href }) =>
                html`<a href=${href} lang=${code} aria-current=${code === language.language ? 'true' : undefined}>${name}</a>`,
            )}
          </nav>
          <nav aria-label=${t('site.aboutNavigation')}>
            ${site.links.map(({ label, href }) => html`<a href=${href}>${label}</a>`)}
            <a href="/docs">API</a>
            <span>nutpost ${VERSION}</span>
          </nav>
        </footer>
      </body>
    </html>
  `)}`;
}

function pickScriptTexts({ texts }: PageLanguage, page: Page): Partial<Texts> {
  const prefixes = ['script.common.', `script.${page.script}.`, ...(page.scriptTexts ?? [])];
  const isUsed = ([key]: [string, string]) => prefixes.some((prefix) => key.startsWith(prefix));
  return Object.fromEntries(Object.entries(texts).filter(isUsed));
}

/** `browser/texts.ts` reads the texts. */
function Script({ path, texts }: { path: string; texts: Partial<Texts> }) {
  // `</script>` would end the element.
  const json = JSON.stringify(texts).replaceAll('<', '\\u003c');
  return html`
    <script id="texts" type="application/json" dangerouslySetInnerHTML=${{ __html: json }}></script>
    <script type="module" src=${path}></script>
  `;
}

function previewMetadata({ siteName, icons, assets }: Site, page: Page) {
  const { title, description, url, previewImage } = page;
  const icon = icons.previewImage && new URL(assets.getPath(icons.previewImage.name), url).href;
  const image = previewImage ?? icon;
  return html`
    <meta property="og:type" content="website" />
    <meta property="og:site_name" content=${siteName} />
    <meta property="og:title" content=${title} />
    <meta property="og:description" content=${description} />
    <meta property="og:url" content=${url} />
    ${image && html`<meta property="og:image" content=${image} />`}
    <meta name="twitter:card" content=${previewImage === undefined ? 'summary' : 'summary_large_image'} />
    <link rel="canonical" href=${url} />
  `;
}

/** The address for headings. A line ends before the `@` rather than within the host. */
export function breakableAddress(address: string): VNode {
  const [localPart, host] = shortenAddress(address).split('@');
  return html`<span>${localPart}<wbr />@${host}</span>` as VNode;
}

/** Shortens the npub of an address for headings. Usernames stay complete, because a shortened one could deceive. */
export function shortenAddress(address: string): string {
  const [localPart = '', host = ''] = address.split('@');
  return localPart.startsWith('npub1') ? `${shortenNpub(localPart)}@${host}` : address;
}
