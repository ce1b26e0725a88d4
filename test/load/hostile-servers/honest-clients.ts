import { setTimeout as delay } from 'node:timers/promises';
import { Agent } from 'undici';
import { median, percentile } from '../../../bench/harness/statistics.ts';
import type { TestMint } from '../../../demo/test-mint.ts';
import {
  type ApiResponse,
  fetchJson,
  RecipientClient,
} from '../../helpers/recipients/recipient-client.ts';

export interface Measurements {
  infoP50: number;
  infoP99: number;
  invoiceP99: number;
  /** From a payment at the operator's mint to the update of the recipient's wallet. */
  updateP99: number;
  /** At mints of other users: the share of invoices within 8 s. */
  otherInvoicesInTime: number;
  /** At mints of other users: the longest time from a payment until the wallet lists it. */
  otherPaymentListed: number;
}

export interface ReachableMint {
  mint: TestMint;
  url: string;
}

/** A payer and a recipient, with keys and an address of their own, so that they stay below all limits. */
interface Customer {
  send: (path: string, init?: RequestInit) => Promise<ApiResponse>;
  recipient: RecipientClient;
  mint: TestMint;
}

const INFO_INTERVAL_MS = 20;
const INVOICE_INTERVAL_MS = 60;
const PAYMENT_INTERVAL_MS = 100;
const OTHER_INVOICE_INTERVAL_MS = 200;
const LIST_INTERVAL_MS = 250;

const PAYMENTS = 30;
const OTHER_PAYMENTS = 5;

/** Below the limit of open invoices of an address and a recipient. */
const COMPARED_INVOICES = 90;

const OTHER_INVOICE_LIMIT_MS = 8_000;

/** A later update or entry of a list counts as this late. */
const MAX_WAIT_MS = 60_000;

let customerCount = 0;

export async function prepareHonestClients(
  origin: string,
  operatorMint: TestMint,
  otherMints: readonly ReachableMint[],
): Promise<(durationMs: number) => Promise<Measurements>> {
  const customer = createCustomer(origin, operatorMint);
  const measureUpdates = await prepareUpdates(createCustomer(origin, operatorMint));
  const otherCustomers = otherMints.map(({ mint }) => createCustomer(origin, mint));
  const measureLists = await Promise.all(
    otherCustomers.map((other, index) => prepareLists(other, otherMints[index]?.url ?? '')),
  );
  return async (durationMs) => {
    const [infos, invoices, otherInvoices, updates, lists] = await Promise.all([
      repeat(durationMs, INFO_INTERVAL_MS, () => customer.send('/api/v2/info')),
      repeat(durationMs, INVOICE_INTERVAL_MS, () => requestAndRedeemInvoice(customer)),
      Promise.all(
        otherCustomers.map((other) =>
          repeat(durationMs, OTHER_INVOICE_INTERVAL_MS, () => requestAndRedeemInvoice(other)),
        ),
      ),
      measureUpdates(),
      Promise.all(measureLists.map((measure) => measure())),
    ]);
    const otherTimes = otherInvoices.flat();
    return {
      infoP50: percentile(infos, 0.5),
      infoP99: percentile(infos, 0.99),
      invoiceP99: percentile(invoices, 0.99),
      updateP99: percentile(updates, 0.99),
      otherInvoicesInTime:
        otherTimes.filter((ms) => ms <= OTHER_INVOICE_LIMIT_MS).length / otherTimes.length,
      otherPaymentListed: Math.max(...lists),
    };
  };
}

export interface CostOfOtherMints {
  /** How much longer an invoice takes than at the operator's mint, at the median. */
  extraDelayMs: number;
  memoryMb: number;
  paymentListedMs: number;
}

/** Must run before the service knows any mint that a user chose. */
export async function measureCostOfOtherMints(
  origin: string,
  operatorMint: TestMint,
  otherMint: ReachableMint,
  readMemoryMb: () => number,
): Promise<CostOfOtherMints> {
  const customer = createCustomer(origin, operatorMint);
  const otherCustomer = createCustomer(origin, otherMint.mint);
  // The memory grows with the first requests.
  await requestInvoices(createCustomer(origin, operatorMint), COMPARED_INVOICES);
  const memoryBeforeMb = readMemoryMb();
  await chooseMint(otherCustomer, otherMint.url);
  const memoryMb = readMemoryMb() - memoryBeforeMb;
  const differencesMs: number[] = [];
  while (differencesMs.length < COMPARED_INVOICES) {
    const durationMs = await measureDuration(() => requestInvoice(customer));
    const otherDurationMs = await measureDuration(() => requestInvoice(otherCustomer));
    differencesMs.push(otherDurationMs - durationMs);
  }
  const measureListed = await prepareLists(createCustomer(origin, otherMint.mint), otherMint.url);
  const paymentListedMs = await measureListed();
  return { extraDelayMs: median(differencesMs), memoryMb, paymentListedMs };
}

function createCustomer(origin: string, mint: TestMint): Customer {
  customerCount += 1;
  const dispatcher = new Agent({ localAddress: `127.1.${customerCount}.1` });
  const send = (path: string, init: RequestInit = {}) => {
    const initWithAddress = { ...init, dispatcher };
    return fetchJson(origin, path, initWithAddress);
  };
  return { send, recipient: new RecipientClient(origin), mint };
}

async function prepareUpdates(customer: Customer): Promise<() => Promise<number[]>> {
  const { recipient, mint } = customer;
  const requests = await requestInvoices(customer, PAYMENTS);
  return async () => {
    const socket = await recipient.openSocket();
    const paidAtMs = new Map<string, number>();
    const delaysMs: number[] = [];
    const received = (async () => {
      while (delaysMs.length < PAYMENTS) {
        const { payload } = await socket.nextMessage();
        const startMs = paidAtMs.get(payload.quoteId);
        // Another update follows when the quote is issued.
        if (paidAtMs.delete(payload.quoteId) && startMs !== undefined) {
          delaysMs.push(performance.now() - startMs);
          await mint.markIssued(payload.quoteId);
        }
      }
    })();
    for (const request of requests) {
      const { id } = mint.pay(request);
      paidAtMs.set(id, performance.now());
      await delay(PAYMENT_INTERVAL_MS);
    }
    await Promise.race([received, delay(MAX_WAIT_MS)]);
    socket.connection.terminate();
    return [...delaysMs, ...Array.from({ length: PAYMENTS - delaysMs.length }, () => MAX_WAIT_MS)];
  };
}

async function prepareLists(customer: Customer, mintUrl: string): Promise<() => Promise<number>> {
  const { send, recipient, mint } = customer;
  await chooseMint(customer, mintUrl);
  const requests = await requestInvoices(customer, OTHER_PAYMENTS);
  return async () => {
    const startedAtMs = performance.now();
    for (const request of requests) {
      mint.pay(request);
    }
    const listPath = '/api/v2/wallet/quotes';
    for (let listed = 0; listed < OTHER_PAYMENTS; ) {
      await delay(LIST_INTERVAL_MS);
      if (performance.now() - startedAtMs > MAX_WAIT_MS) {
        return MAX_WAIT_MS;
      }
      const authorization = recipient.signRequest(listPath);
      const { body } = await send(listPath, { headers: { authorization } });
      // A signature can expire while the service does not respond.
      listed = body.data?.quotes.length ?? 0;
    }
    return performance.now() - startedAtMs;
  };
}

async function repeat(
  durationMs: number,
  intervalMs: number,
  action: () => Promise<unknown>,
): Promise<number[]> {
  const durations: Promise<number>[] = [];
  for (const startMs = performance.now(); performance.now() - startMs < durationMs; ) {
    durations.push(measureDuration(action).catch(() => MAX_WAIT_MS));
    await delay(intervalMs);
  }
  return await Promise.all(durations);
}

async function measureDuration(action: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now();
  await action();
  return performance.now() - startMs;
}

async function chooseMint({ send, recipient }: Customer, mintUrl: string): Promise<void> {
  const path = '/api/v2/user/mint';
  const headers = { authorization: recipient.signRequest(path, 'PATCH') };
  await send(path, { method: 'PATCH', headers, body: JSON.stringify({ mint_url: mintUrl }) });
}

async function requestInvoice({ send, recipient }: Customer): Promise<string> {
  const { body } = await send(`/.well-known/lnurlp/${recipient.npub}?amount=21000`);
  if (body.pr === undefined) {
    throw new Error(`the service returned no invoice: ${JSON.stringify(body)}`);
  }
  return body.pr;
}

/** Ends the quote, because a service that watches a thousand others notices payments later. */
async function requestAndRedeemInvoice(customer: Customer): Promise<void> {
  const { id } = customer.mint.pay(await requestInvoice(customer));
  await customer.mint.markIssued(id);
}

async function requestInvoices(customer: Customer, count: number): Promise<string[]> {
  const requests: string[] = [];
  while (requests.length < count) {
    requests.push(await requestInvoice(customer));
  }
  return requests;
}
