import { html } from 'htm/preact';
import { formatInCurrencies, parseAmountInSats } from './amount.ts';
import { InvoiceActions, small } from './elements.ts';
import { formatTimeLeft } from './expiry.ts';
import type { CurrentRates } from './fiat-rates.ts';
import { breakableAddress, type Page } from './layout.ts';
import type { PageLanguage } from './page-language.ts';
import type { PaymentInput } from './payment-form.ts';
import { type Payee, RateAge, Worth } from './payment-page.ts';

const RELOAD_SECONDS = 5;

type EnteredAmount = Pick<PaymentInput, 'amount' | 'unit'>;

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
  /** What the payer entered in a currency, from the link of the page; empty if the amount was in sats. */
  entered: EnteredAmount;
  fiat: CurrentRates | null;
  nowMs: number;
}

/** `browser/invoice.ts` shows one of the sections. Without JavaScript, the page reloads. */
export function invoicePage(
  language: PageLanguage,
  { payee, quote, verifyToken, entered, fiat, nowMs }: InvoicePageData,
): Page {
  const { t, rich, link } = language;
  const isPaid = quote.state === 'PAID' || quote.state === 'ISSUED';
  const unpaidStatus = quote.expiresAtMs > nowMs ? 'waiting' : 'expired';
  const status = isPaid ? 'paid' : unpaidStatus;
  const address = breakableAddress(payee.address);
  const paymentPath = `/${payee.localPart}`;
  const worth = describeEntered(entered, quote.amountSat, fiat, language);
  const form = {
    amount: `${quote.amountSat}`,
    comment: quote.comment ?? '',
    ...(worth !== null && entered),
  };
  const changePath = link(`${paymentPath}?${new URLSearchParams(form)}`);
  const changeLink = html`<a class="button secondary wide" href=${changePath}>${t('invoice.changeAmount')}</a>`;
  const title = t('invoice.title', { address: payee.address });
  const secondsLeft = Math.max(0, Math.ceil((quote.expiresAtMs - nowMs) / 1_000));
  const time = formatTimeLeft(secondsLeft, language.language);
  return {
    title: isPaid ? t('script.invoice.paidTitle', { title }) : title,
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
        <h1>${rich('invoice.heading', { amount: quote.amountSat, address, small })}</h1>
        <p id="status" role="status" class="visually-hidden"></p>
        <p id="connection" class="problem" hidden>${t('invoice.noConnection')}</p>
        <section class="card paid" data-section="paid" hidden=${status !== 'paid'}>
          <svg class="paid-mark" viewBox="0 0 24 24" aria-hidden="true"><path d="M6 12.5l4 4 8-9" /></svg>
          <h2>${t('invoice.paid')}</h2>
          <p>${rich('invoice.received', { address: html`<span class="breakable">${payee.address}</span>` })}</p>
          <p class="hint"><${PaidAt} ms=${quote.paidAtMs} language=${language} /></p>
          <${Comment} text=${quote.comment} />
          <p class="row centered">
            <button type="button" id="save-receipt" class="secondary" hidden>${t('invoice.saveReceipt')}</button>
            <button type="button" id="share-receipt" class="secondary" hidden>${t('invoice.share')}</button>
            <a class="button secondary" href=${link(paymentPath)}>${t('invoice.payAgain')}</a>
          </p>
        </section>
        <section class="card" data-section="waiting" hidden=${status !== 'waiting'}>
          <h2>${t('invoice.waiting')}</h2>
          <p id="expiry" class="hint">${t('script.invoice.expiresIn', { time })}</p>
          ${fiat !== null && html`<${Worth} language=${language} amountSat=${quote.amountSat} ...${fiat} />`}
          <${WaitingInvoice} request=${quote.request} language=${language} />
          <${Comment} text=${quote.comment} />
          <p>${changeLink}</p>
          ${fiat !== null && html`<${RateAge} language=${language} ...${fiat} />`}
        </section>
        <section class="card" data-section="expired" hidden=${status !== 'expired'}>
          <h2>${t('invoice.expired')}</h2>
          <p>${t('invoice.expiredText')}</p>
          <form method="post" action=${link(paymentPath)}>
            ${Object.entries(form).map(([name, value]) => html`<input type="hidden" name=${name} value=${value} />`)}
            ${worth !== null && html`<p>${t('invoice.renewInCurrency', { worth })}</p>`}
            <button type="submit" id="renew" class="wide">${t('invoice.renew')}</button>
          </form>
          <${Comment} text=${quote.comment} />
          <p>${changeLink}</p>
        </section>
      </div>
    `,
  };
}

/** A larger change since the invoice was created is more likely a wrong link than a new exchange rate. */
const MAX_RATE_CHANGE = 0.1;

/**
 * Formats what the payer entered in a currency. Returns null if there is no rate for it, or if it is not about the
 * invoice: anybody can write the link of the page.
 */
function describeEntered(
  { amount, unit }: EnteredAmount,
  amountSat: number,
  fiat: CurrentRates | null,
  { language }: PageLanguage,
): string | null {
  const rates = fiat?.rates.filter(({ currency }) => currency === unit) ?? [];
  const sats = parseAmountInSats(amount, unit, rates);
  const isEntered =
    rates.length > 0 &&
    typeof sats === 'number' &&
    Math.abs(sats - amountSat) <= amountSat * MAX_RATE_CHANGE;
  return isEntered ? formatInCurrencies(sats, rates, language) : null;
}

function WaitingInvoice({ request, language }: { request: string; language: PageLanguage }) {
  const { t } = language;
  return html`
    <${InvoiceActions} request=${request} t=${t}>
      <button type="button" id="webln-button" class="secondary" hidden>${t('invoice.payInBrowser')}</button>
      <p id="webln-problem" class="problem" role="alert" hidden></p>
    <//>
    <noscript><p class="hint">${t('invoice.reloads', { seconds: RELOAD_SECONDS })}</p></noscript>
  `;
}

/** The time in UTC. `browser/invoice.ts` shows it in the payer's time zone. */
function PaidAt({ ms, language }: { ms: number | null; language: PageLanguage }) {
  const date = ms === null ? null : new Date(ms);
  const text = date?.toLocaleString(language.language, {
    dateStyle: 'long',
    timeStyle: 'short',
    timeZone: 'UTC',
  });
  return html`<time id="paid-at" datetime=${date?.toISOString()}>${text && `${text} UTC`}</time>`;
}

function Comment({ text }: { text: string | null }) {
  return text !== null && html`<p class="comment breakable">${text}</p>`;
}
