import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { percentile } from '../../bench/harness/statistics.ts';
import { requestJson, TestWallet } from '../helpers/test-wallet.ts';
import {
  type NutshellDeployment,
  startNutshellDeployment,
  waitForUpdate,
} from './nutshell-deployment.ts';

/** Many recipients at one Nutshell with its default limits, which are elastic. */

const RECIPIENTS = 40;

/** Nutshell exempts 127.0.0.1 from its limits, and no other address. */
const HOST_WITH_LIMITS = '::1';

/** Nutshell's fake backend pays every invoice after this time, or when the quote is read. */
const PAYS_AFTER_SECONDS = 3;

/** Three payers for each invoice that the mint allows. */
const BETWEEN_PAYERS_MS = 1_000;

const PAYER_RETRY_MS = 5_000;
const MINUTE_MS = 60_000;

/** A mint with an elastic limit of 20 a minute must give at least this many. */
const MIN_INVOICES_PER_MINUTE = 12;
const RUN_TIMEOUT_MS = (RECIPIENTS / MIN_INVOICES_PER_MINUTE + 2) * MINUTE_MS;

/** For 95 % of the payments. */
const NOTIFIED_WITHIN_MS = 5_000;

/** More than Nutshell allows on a route that the service does not use. */
const REQUESTS_OVER_ANY_LIMIT = 61;

interface NotifiedPayment {
  recipient: TestWallet;
  quoteId: string;
  /** When the payer had the invoice (`performance.now()`). */
  invoicedAtMs: number;
  /** From the payment at the mint to the recipient's `update`. */
  notifiedAfterMs: number;
}

let site: NutshellDeployment;
let payments: NotifiedPayment[];

beforeAll(async () => {
  site = await startNutshellDeployment({
    nutshell: {
      MINT_LISTEN_HOST: HOST_WITH_LIMITS,
      FAKEWALLET_DELAY_INCOMING_PAYMENT: String(PAYS_AFTER_SECONDS),
    },
    env: { TRUST_PROXY: '127.0.0.1' },
  });
  payments = await Promise.all(
    Array.from({ length: RECIPIENTS }, async (_, index) => {
      await delay(index * BETWEEN_PAYERS_MS);
      return await payNewRecipient(index);
    }),
  );
}, RUN_TIMEOUT_MS);

afterAll(() => site[Symbol.asyncDispose]());

it('lists exactly one payment for each recipient', async () => {
  for (const { recipient, quoteId } of payments) {
    expect(await recipient.listQuotes()).toMatchObject([
      { quoteId, state: 'PAID', mintUrl: site.mintUrl },
    ]);
  }
  expect(new Set(payments.map(({ quoteId }) => quoteId)).size).toBe(RECIPIENTS);
});

it('sends update within 5 s of a payment at p95', () => {
  const delaysMs = payments.map(({ notifiedAfterMs }) => notifiedAfterMs);
  expect(percentile(delaysMs, 0.95)).toBeLessThanOrEqual(NOTIFIED_WITHIN_MS);
});

it('gives 12 invoices a minute', () => {
  const timesMs = payments.map(({ invoicedAtMs }) => invoicedAtMs);
  const minutes = (Math.max(...timesMs) - Math.min(...timesMs)) / MINUTE_MS;
  expect(RECIPIENTS / minutes).toBeGreaterThanOrEqual(MIN_INVOICES_PER_MINUTE);
});

it('really limits the requests of this machine', async () => {
  const statuses = new Set<number>();
  for (let asked = 0; asked < REQUESTS_OVER_ANY_LIMIT; asked += 1) {
    statuses.add((await fetch(`${site.directUrl}/v1/keysets`)).status);
  }
  expect(statuses).toEqual(new Set([200, 429]));
});

/** Opens a recipient's socket, gets an invoice, and waits for the `update` of its payment. */
async function payNewRecipient(index: number): Promise<NotifiedPayment> {
  const recipient = new TestWallet(site.service.publicOrigin);
  const socket = await recipient.openSocket();
  // Payers of one address get only a share of what the mint allows.
  const headers = { 'x-forwarded-for': `198.18.0.${index}` };
  const path = `/.well-known/lnurlp/${recipient.npub}?amount=21000`;
  while ((await requestJson(site.service.url, path, { headers })).body.pr === undefined) {
    await delay(PAYER_RETRY_MS);
  }
  const invoicedAtMs = performance.now();
  const quoteId = await waitForUpdate(socket);
  const paidAtMs = invoicedAtMs + PAYS_AFTER_SECONDS * 1_000;
  // A poll makes the fake backend pay early.
  const notifiedAfterMs = Math.max(0, performance.now() - paidAtMs);
  expect(await socket.drainMessages()).toEqual([]);
  await socket.close();
  return { recipient, quoteId, invoicedAtMs, notifiedAfterMs };
}
