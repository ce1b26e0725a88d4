import { readInvoice } from '../domain/bolt11.ts';

/** What a payer learns of a Lightning address (LUD-06). Amounts in millisatoshis. */
export interface Discovery {
  callback: string;
  minSendable: number;
  maxSendable: number;
}

/** What a payer gets for an amount (LUD-06, LUD-21). */
export interface Invoice {
  /** BOLT 11. */
  pr: string;
  /** Where the payer can ask whether it was paid. */
  verify: string;
}

/** Asks who a Lightning address is (LUD-16). */
export async function discover(discoveryUrl: string): Promise<Discovery> {
  const answer = await getLnurl<Discovery & { tag: string }>(discoveryUrl);
  if (answer.tag !== 'payRequest') {
    throw new Error(`the tag is ${answer.tag}, not payRequest`);
  }
  return answer;
}

/** Asks for an invoice, and refuses one for another amount, as payers' wallets do. */
export async function requestInvoice(callback: string, amountMsat: number): Promise<Invoice> {
  const url = new URL(callback);
  url.searchParams.set('amount', String(amountMsat));
  const invoice = await getLnurl<Invoice>(url.href);
  const invoiced = readInvoice(invoice.pr)?.amountMsat;
  if (invoiced !== amountMsat) {
    throw new Error(`the invoice is for ${invoiced} msat, not ${amountMsat}`);
  }
  return invoice;
}

/** Asks whether an invoice was paid (LUD-21), and insists that it was. */
export async function verifySettled(verifyUrl: string): Promise<void> {
  const { settled } = await getLnurl<{ settled: boolean }>(verifyUrl);
  if (!settled) {
    throw new Error('the invoice is not settled');
  }
}

async function getLnurl<T>(url: string): Promise<T> {
  const response = await fetch(url);
  const answer = (await response.json()) as T | { status: 'ERROR'; reason: string };
  if (isLnurlError(answer)) {
    throw new Error(`the service answered: ${answer.reason}`);
  }
  return answer;
}

function isLnurlError(answer: unknown): answer is { status: 'ERROR'; reason: string } {
  return (answer as { status?: unknown }).status === 'ERROR';
}
