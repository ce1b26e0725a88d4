import { bech32 } from '@scure/base';
import { html } from 'htm/preact';
import type { ComponentChildren, VNode } from 'preact';
import { useId } from 'preact/hooks';
import { encodeQR } from 'qr';
import type { Translator } from './translation.ts';

// Elements of the server's pages and of the account page, which runs in the browser.

interface SectionProps {
  /** For links to the section. */
  id?: string;
  title: string;
  children: ComponentChildren;
}

export function Section({ id, title, children }: SectionProps) {
  const headingId = useId();
  return html`
    <section id=${id} class="card" aria-labelledby=${headingId}>
      <h2 id=${headingId}>${title}</h2>
      ${children}
    </section>
  `;
}

/** The capacity of the largest QR code with low error correction (ISO 18004, version 40). */
const MAX_QR_CODE_BYTES = 2_953;

/** A QR code of an ASCII text, always dark on white, as scanners expect. Nothing if the text is too long. */
export function QrCode({ text, label }: { text: string; label: string }) {
  // Mints choose the length of invoices.
  if (text.length > MAX_QR_CODE_BYTES) {
    return null;
  }
  // Scanners need a white border of four modules (ISO 18004).
  const rows = encodeQR(text, 'raw', { ecc: 'low', border: 4 });
  const viewBox = `0 0 ${rows.length} ${rows.length}`;
  return html`
    <svg class="qr" role="img" aria-label=${label} viewBox=${viewBox} shape-rendering="crispEdges">
      <path d=${rows.map(drawRow).join('')} />
    </svg>
  `;
}

/** Returns an SVG path with one rectangle for each run of dark modules. */
function drawRow(modules: readonly boolean[], y: number): string {
  const row = modules.map((isDark) => (isDark ? '1' : '0')).join('');
  const runs = [...row.matchAll(/1+/g)];
  return runs.map(({ index: x, 0: { length } }) => `M${x} ${y}h${length}v1h-${length}z`).join('');
}

interface CopyableTextProps {
  id?: string;
  text: string;
  label: string;
  children?: ComponentChildren;
}

/** A text with a button that copies it. `common.ts` handles clicks, and shows the buttons of the server's pages. */
export function CopyableText({ id, text, label, children }: CopyableTextProps) {
  // Always false on the server, whose `navigator` has no clipboard.
  const canCopy = 'clipboard' in navigator;
  return html`
    <div class="copyable">
      <code id=${id} class="breakable">${text}</code>
      ${children}
      <button type="button" class="secondary" data-copy hidden=${!canCopy}>
        ${label}
      </button>
      <span role="status" class="visually-hidden"></span>
    </div>
  `;
}

interface InvoiceActionsProps {
  request: string;
  t: Translator['t'];
  /** Further ways to pay, and their problems. */
  children?: ComponentChildren;
}

/** The ways to pay a Lightning invoice: on the device first, then with another one. Like {@link CopyableText}, it can be copied. */
export function InvoiceActions(props: InvoiceActionsProps) {
  const { request, t, children } = props;
  const uri = `lightning:${request.toUpperCase()}`;
  return html`
    <div class="invoice-actions">
      <a class="button" href=${uri}>${t('invoice.openInWallet')}</a>
      <button type="button" class="secondary" data-copy hidden=${!('clipboard' in navigator)}>
        ${t('invoice.copy')}
      </button>
      <span role="status" class="visually-hidden"></span>
      ${children}
      <${QrCode} text=${uri} label=${t('invoice.qrCode')} />
      <code id="request">${request}</code>
    </div>
  `;
}

/** Creates the element for the tag `<small>` of a text. */
export function small(content: ComponentChildren): VNode {
  return html`<small>${content}</small>` as VNode;
}

export function shortenNpub(npub: string): string {
  return `${npub.slice(0, 12)}…${npub.slice(-6)}`;
}

/** Returns the URI of a Lightning address for links, which open a wallet (LUD-01). */
export function buildLnurlUri(origin: string, localPart: string): string {
  return `lightning:${encodeLnurl(origin, localPart)}`;
}

/** Returns the URL of a payment page that wallets read as the LNURL in it (LUD-01, fallback scheme), for QR codes. */
export function buildPaymentQrText(origin: string, localPart: string, query = ''): string {
  return `${origin}/${localPart}?${query}lightning=${encodeLnurl(origin, localPart)}`;
}

function encodeLnurl(origin: string, localPart: string): string {
  const url = new TextEncoder().encode(`${origin}/.well-known/lnurlp/${localPart}`);
  return bech32.encode('lnurl', bech32.toWords(url), false).toUpperCase();
}
