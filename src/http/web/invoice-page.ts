import { html } from 'htm/preact';
import { QrCode, Sats } from './elements.ts';
import { formatExpiry } from './expiry.ts';
import { type Page, shortenAddress } from './layout.ts';
import type { Payee } from './payment-page.ts';

const RELOAD_SECONDS = 5;

interface InvoicePageData {
  payee: Payee;
  quote: {
    amountSat: number;
    comment: string | null;
    request: string;
    state: string;
    expiresAtMs: number;
    paidAtMs: number | null;
  };
  verifyToken: string;
  nowMs: number;
}

/** `browser/invoice.ts` shows one of the sections. Without JavaScript, the page reloads. */
export function invoicePage({ payee, quote, verifyToken, nowMs }: InvoicePageData): Page {
  const isPaid = quote.state === 'PAID' || quote.state === 'ISSUED';
  const unpaidStatus = quote.expiresAtMs > nowMs ? 'waiting' : 'expired';
  const status = isPaid ? 'paid' : unpaidStatus;
  const address = shortenAddress(payee.address);
  const form = { amount: `${quote.amountSat}`, comment: quote.comment ?? '' };
  const changeLink = html`<a class="button secondary wide" href=${`/${payee.localPart}?${new URLSearchParams(form)}`}>Change the amount</a>`;
  return {
    title: `${isPaid ? 'Paid · ' : ''}Invoice for ${payee.address}`,
    script: 'invoice',
    ...(status === 'waiting' && {
      head: html`<noscript><meta http-equiv="refresh" content=${RELOAD_SECONDS} /></noscript>`,
    }),
    content: html`
      <div
        id="invoice"
        class="narrow invoice"
        data-status=${status}
        data-verify=${`/lnurl/verify/${verifyToken}`}
        data-expires-at=${quote.expiresAtMs}
      >
        <h1><${Sats} amount=${quote.amountSat} /> <small>to ${address}</small></h1>
        <p id="status" role="status" class="visually-hidden"></p>
        <p id="connection" class="problem" hidden>There is no connection to the server. Trying again.</p>
        <section class="card paid" data-section="paid" hidden=${status !== 'paid'}>
          <svg class="paid-mark" viewBox="0 0 24 24" aria-hidden="true"><path d="M6 12.5l4 4 8-9" /></svg>
          <h2>Paid</h2>
          <p><span class="breakable">${payee.address}</span> received your payment.</p>
          <p class="hint"><${PaidAt} ms=${quote.paidAtMs} /></p>
          <${Comment} text=${quote.comment} />
          <p class="row centered">
            <button type="button" id="save-receipt" class="secondary" hidden>Save receipt</button>
            <button type="button" id="share-receipt" class="secondary" hidden>Share</button>
            <a class="button secondary" href=${`/${payee.localPart}`}>Make another payment</a>
          </p>
        </section>
        <section class="card" data-section="waiting" hidden=${status !== 'waiting'}>
          <h2>Waiting for the payment</h2>
          <p id="expiry" class="hint">${formatExpiry(Math.max(0, Math.ceil((quote.expiresAtMs - nowMs) / 1_000)))}</p>
          <${WaitingInvoice} request=${quote.request} />
          <${Comment} text=${quote.comment} />
          <p>${changeLink}</p>
        </section>
        <section class="card" data-section="expired" hidden=${status !== 'expired'}>
          <h2>This invoice has expired</h2>
          <p>Do not pay it any more. If you have just paid it, the payment appears here.</p>
          <form method="post" action=${`/${payee.localPart}`}>
            <input type="hidden" name="amount" value=${form.amount} />
            <input type="hidden" name="comment" value=${form.comment} />
            <button type="submit" id="renew" class="wide">Create a new invoice</button>
          </form>
          <${Comment} text=${quote.comment} />
          <p>${changeLink}</p>
        </section>
      </div>
    `,
  };
}

function WaitingInvoice({ request }: { request: string }) {
  const uri = `lightning:${request.toUpperCase()}`;
  return html`
    <div class="invoice-actions">
      <a class="button" href=${uri}>Open in wallet</a>
      <button type="button" id="webln-button" class="secondary" hidden>Pay with the browser’s wallet</button>
      <button type="button" class="secondary" data-copy hidden>Copy invoice</button>
      <p id="webln-problem" class="problem" role="alert" hidden></p>
      <${QrCode} text=${uri} label="QR code of the Lightning invoice" />
      <code id="request">${request}</code>
    </div>
    <noscript><p class="hint">This page reloads every ${RELOAD_SECONDS} seconds.</p></noscript>
  `;
}

/** The time in UTC. `browser/invoice.ts` shows it in the payer's language and time zone. */
function PaidAt({ ms }: { ms: number | null }) {
  const date = ms === null ? null : new Date(ms);
  const text = date?.toLocaleString('en-GB', {
    dateStyle: 'long',
    timeStyle: 'short',
    timeZone: 'UTC',
  });
  return html`<time id="paid-at" datetime=${date?.toISOString()}>${text && `${text} UTC`}</time>`;
}

function Comment({ text }: { text: string | null }) {
  return text !== null && html`<p class="comment breakable">${text}</p>`;
}
