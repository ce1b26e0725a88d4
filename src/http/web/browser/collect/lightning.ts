import { ExplainedError } from '../explained-error.ts';
import { t } from '../translator.ts';
import { MINT_TIMEOUT_MS } from './limits.ts';
import { type MintWallet, NotEnoughError, type PaymentOffer } from './mint-wallet.ts';

/** Asks what it costs to pay an invoice or a Lightning address. @param amountSat for an address; null: everything */
export async function offerPayment(
  mint: MintWallet,
  destination: string,
  amountSat: number | null,
): Promise<PaymentOffer> {
  const text = destination.trim().replace(/^(lightning:(\/\/)?|₿)/i, '');
  const invoice = parseInvoice(text);
  if (invoice !== null) {
    const offer = await mint.quotePayment(invoice);
    if (amountSat !== null && offer.amountSat !== amountSat) {
      throw new ExplainedError(t('collect.otherInvoiceAmount', { amount: offer.amountSat }));
    }
    return offer;
  }
  const address = parseAddress(text);
  if (address === null) {
    throw new ExplainedError(t('collect.noDestination'));
  }
  const sat = amountSat ?? (await mint.getMaxPaymentSat());
  try {
    return await quoteAddress(mint, address, sat);
  } catch (error) {
    // The fee leaves less for the payment.
    if (error instanceof NotEnoughError && amountSat === null && error.maxPaymentSat > 0) {
      return await quoteAddress(mint, address, error.maxPaymentSat);
    }
    throw error;
  }
}

async function quoteAddress(mint: MintWallet, address: Address, amountSat: number) {
  const offer = await mint.quotePayment(await requestInvoice(address, amountSat));
  if (offer.amountSat !== amountSat) {
    throw new ExplainedError(t('collect.otherAmount'));
  }
  return offer;
}

/** Returns an invoice (BOLT 11) if the text is one, otherwise null. */
function parseInvoice(text: string): string | null {
  const invoice = text.toLowerCase();
  return /^ln(bc|tb|bcrt|tbs)[0-9a-z]+$/.test(invoice) ? invoice : null;
}

/** A Lightning address (LUD-16). */
interface Address {
  name: string;
  host: string;
}

function parseAddress(text: string): Address | null {
  const [, name, host] = /^([^@\s/?#]+)@([^@\s/?#]+)$/.exec(text.toLowerCase()) ?? [];
  return name === undefined || host === undefined ? null : { name, host };
}

/** Requests an invoice from a Lightning address (LUD-16, LUD-06). The caller checks its amount. */
async function requestInvoice({ name, host }: Address, amountSat: number): Promise<string> {
  const scheme = host === location.host ? location.protocol : 'https:';
  const offer = await fetchLnurl(
    `${scheme}//${host}/.well-known/lnurlp/${encodeURIComponent(name)}`,
  );
  const { callback, minSendable, maxSendable } = offer;
  const amountMsat = amountSat * 1_000;
  if (offer['tag'] !== 'payRequest' || typeof callback !== 'string' || !URL.canParse(callback)) {
    throw new ExplainedError(t('collect.noAddress'));
  }
  if (amountMsat < Number(minSendable) || amountMsat > Number(maxSendable)) {
    const [min, max] = [Number(minSendable) / 1_000, Number(maxSendable) / 1_000];
    throw new ExplainedError(t('collect.addressRange', { min, max }));
  }
  const url = new URL(callback);
  url.searchParams.set('amount', String(amountMsat));
  const { pr } = await fetchLnurl(url.href);
  const invoice = parseInvoice(String(pr));
  if (invoice === null) {
    throw new ExplainedError(t('collect.noInvoice'));
  }
  return invoice;
}

async function fetchLnurl(url: string): Promise<Record<string, unknown>> {
  let body: Record<string, unknown>;
  try {
    const signal = AbortSignal.timeout(MINT_TIMEOUT_MS);
    const response = await fetch(url, { credentials: 'omit', signal });
    body = (await response.json()) ?? {};
  } catch {
    throw new ExplainedError(t('collect.addressNoAnswer'));
  }
  if (body['status'] === 'ERROR') {
    const reason = String(body['reason']).slice(0, 200);
    throw new ExplainedError(t('collect.addressRefused', { reason }));
  }
  return body;
}
