import { decodeInvoice } from '../src/quotes/bolt11.ts';

/** A pay request (LUD-06). Its amounts are in millisatoshis. */
interface PayRequest {
  tag: string;
  callback: string;
  minSendable: number;
  maxSendable: number;
}

/** The response to an invoice request (LUD-06, LUD-21). */
interface Invoice {
  /** The BOLT 11 invoice. */
  pr: string;
  /** URL that reports whether the invoice is paid. */
  verify: string;
}

/** Looks up a Lightning address (LUD-16). */
export async function fetchPayRequest(payRequestUrl: string): Promise<PayRequest> {
  const payRequest = await fetchLnurl<PayRequest>(payRequestUrl);
  if (payRequest.tag !== 'payRequest') {
    throw new Error(`expected the tag payRequest, got ${payRequest.tag}`);
  }
  return payRequest;
}

/** Requests an invoice. Throws if the invoice has a different amount, as payers' wallets do. */
export async function requestInvoice(callback: string, amountMsat: number): Promise<Invoice> {
  const url = new URL(callback);
  url.searchParams.set('amount', String(amountMsat));
  const invoice = await fetchLnurl<Invoice>(url.href);
  const invoicedMsat = decodeInvoice(invoice.pr)?.amountMsat;
  if (invoicedMsat !== amountMsat) {
    throw new Error(`the invoice is for ${invoicedMsat} msat, not ${amountMsat}`);
  }
  return invoice;
}

/** Throws unless the service reports that the invoice is paid (LUD-21). */
export async function assertSettled(verifyUrl: string): Promise<void> {
  const { settled } = await fetchLnurl<{ settled: boolean }>(verifyUrl);
  if (!settled) {
    throw new Error('the invoice is not settled');
  }
}

async function fetchLnurl<T extends object>(url: string): Promise<T> {
  const response = await fetch(url);
  const body = (await response.json()) as T & { status?: string; reason?: string };
  if (body.status === 'ERROR') {
    throw new Error(`the service returned an error: ${body.reason}`);
  }
  return body;
}
