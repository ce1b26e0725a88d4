import { readInvoice } from '../src/quotes/bolt11.ts';

/** How a Lightning address can be paid (LUD-06). Amounts in millisatoshis. */
interface Discovery {
  tag: string;
  callback: string;
  minSendable: number;
  maxSendable: number;
}

/** The answer to a request for an invoice (LUD-06, LUD-21). */
interface Invoice {
  /** BOLT 11. */
  pr: string;
  /** Where the payer can check whether it is paid. */
  verify: string;
}

/** Looks up a Lightning address (LUD-16). */
export async function discover(discoveryUrl: string): Promise<Discovery> {
  const answer = await getLnurl<Discovery>(discoveryUrl);
  if (answer.tag !== 'payRequest') {
    throw new Error(`the tag is ${answer.tag}, not payRequest`);
  }
  return answer;
}

/** Requests an invoice, and rejects one for another amount, as payers' wallets do. */
export async function requestInvoice(callback: string, amountMsat: number): Promise<Invoice> {
  const url = new URL(callback);
  url.searchParams.set('amount', String(amountMsat));
  const invoice = await getLnurl<Invoice>(url.href);
  const invoicedMsat = readInvoice(invoice.pr)?.amountMsat;
  if (invoicedMsat !== amountMsat) {
    throw new Error(`the invoice is for ${invoicedMsat} msat, not ${amountMsat}`);
  }
  return invoice;
}

/** Throws unless an invoice is paid (LUD-21). */
export async function verifySettled(verifyUrl: string): Promise<void> {
  const { settled } = await getLnurl<{ settled: boolean }>(verifyUrl);
  if (!settled) {
    throw new Error('the invoice is not settled');
  }
}

async function getLnurl<T extends object>(url: string): Promise<T> {
  const response = await fetch(url);
  const answer = (await response.json()) as T & { status?: string; reason?: string };
  if (answer.status === 'ERROR') {
    throw new Error(`the service answered: ${answer.reason}`);
  }
  return answer;
}
