import { html } from 'htm/preact';
import { CopyableText, QrCode, Sats } from './elements.ts';
import { type Page, shortenAddress } from './layout.ts';
import type { Payee } from './payment-page.ts';

const RELOAD_SECONDS = 5;

interface InvoicePageData {
  payee: Payee;
  quote: { amountSat: number; request: string; state: string; expiresAtMs: number };
  verifyToken: string;
  nowMs: number;
}

/** `browser/invoice.ts` shows one of the sections. Without JavaScript, the page reloads. */
export function invoicePage({ payee, quote, verifyToken, nowMs }: InvoicePageData): Page {
  const isPaid = quote.state === 'PAID' || quote.state === 'ISSUED';
  const unpaidStatus = quote.expiresAtMs > nowMs ? 'waiting' : 'expired';
  const status = isPaid ? 'paid' : unpaidStatus;
  const address = shortenAddress(payee.address);
  return {
    title: `Invoice for ${payee.address}`,
    script: 'invoice',
    ...(status === 'waiting' && {
      head: html`<noscript><meta http-equiv="refresh" content=${RELOAD_SECONDS} /></noscript>`,
    }),
    content: html`
      <div
        id="invoice"
        class="narrow"
        data-status=${status}
        data-verify=${`/lnurl/verify/${verifyToken}`}
        data-expires-at=${quote.expiresAtMs}
      >
        <h1><${Sats} amount=${quote.amountSat} /> <small>to ${address}</small></h1>
        <p id="status" role="status" class="visually-hidden"></p>
        <p id="connection" class="problem" hidden>There is no connection to the server. Trying again.</p>
        <section class="card paid" data-section="paid" hidden=${status !== 'paid'}>
          <h2><span aria-hidden="true">✓</span> Paid</h2>
          <p><span class="breakable">${address}</span> received your payment.</p>
        </section>
        <section class="card" data-section="waiting" hidden=${status !== 'waiting'}>
          <${WaitingInvoice} request=${quote.request} />
        </section>
        <section class="card" data-section="expired" hidden=${status !== 'expired'}>
          <h2>This invoice has expired</h2>
          <p>Do not pay it any more. If you have just paid it, the payment appears here.</p>
        </section>
        <p><a href=${`/${payee.localPart}`}>Make another payment</a></p>
      </div>
    `,
  };
}

function WaitingInvoice({ request }: { request: string }) {
  const uri = `lightning:${request.toUpperCase()}`;
  return html`
    <h2>Waiting for the payment</h2>
    <${QrCode} text=${uri} label="QR code of the Lightning invoice" />
    <${CopyableText} id="request" text=${request} label="Copy invoice">
      <a class="button" href=${uri}>Open in wallet</a>
      <button type="button" id="webln-button" class="secondary" hidden>Pay with the browser’s wallet</button>
    <//>
    <p id="webln-problem" class="problem" role="alert" hidden></p>
    <noscript><p class="hint">This page reloads every ${RELOAD_SECONDS} seconds.</p></noscript>
    <p id="expiry" class="hint"></p>
  `;
}
