import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { percentile } from '../../bench/harness/statistics.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import {
  type NutshellDeployment,
  startNutshellDeployment,
  waitForUpdate,
} from './nutshell-deployment.ts';

/**
 * Many recipients receive a payment at one Nutshell with its default rate limits. These limits are elastic: a rejected
 * request also restarts the time that a client must wait.
 */

const RECIPIENT_COUNT = 40;

/** Nutshell applies its limits to every address except 127.0.0.1. */
const HOST_WITH_LIMITS = '::1';

/** Nutshell's fake Lightning backend pays every invoice after this time, or earlier if the quote is read. */
const PAYMENT_DELAY_SECONDS = 3;

/** A new payer per second. That is three times as many invoices as the mint's limit of 20 a minute allows. */
const NEW_PAYER_INTERVAL_MS = 1_000;

const PAYER_RETRY_DELAY_MS = 5_000;
const MINUTE_MS = 60_000;

/** The service must get at least this many invoices from a mint with an elastic limit of 20 a minute. */
const MIN_INVOICES_PER_MINUTE = 12;
const TIMEOUT_MS = (RECIPIENT_COUNT / MIN_INVOICES_PER_MINUTE + 2) * MINUTE_MS;

const MAX_NOTIFICATION_P95_MS = 5_000;

/** More requests per minute than Nutshell allows on any route. */
const REQUESTS_OVER_ANY_LIMIT = 61;

it(
  'notifies many recipients at a mint with limits, and returns at least 12 invoices a minute',
  async () => {
    await using deployment = await startNutshellDeployment({
      nutshellEnv: {
        MINT_LISTEN_HOST: HOST_WITH_LIMITS,
        FAKEWALLET_DELAY_INCOMING_PAYMENT: String(PAYMENT_DELAY_SECONDS),
      },
      env: { TRUST_PROXY: '127.0.0.1' },
    });
    const payments = await Promise.all(
      Array.from({ length: RECIPIENT_COUNT }, async (_, index) => {
        await delay(index * NEW_PAYER_INTERVAL_MS);
        return await payNewRecipient(deployment, index);
      }),
    );
    for (const { recipient, quoteId } of payments) {
      expect(await recipient.listPaidQuotes()).toMatchObject([
        { quoteId, state: 'PAID', mintUrl: deployment.mintUrl },
      ]);
    }
    expect(new Set(payments.map(({ quoteId }) => quoteId)).size).toBe(RECIPIENT_COUNT);
    const delaysMs = payments.map(({ notificationDelayMs }) => notificationDelayMs);
    expect(percentile(delaysMs, 0.95)).toBeLessThanOrEqual(MAX_NOTIFICATION_P95_MS);
    const timesMs = payments.map(({ invoicedAtMs }) => invoicedAtMs);
    const minutes = (Math.max(...timesMs) - Math.min(...timesMs)) / MINUTE_MS;
    expect(RECIPIENT_COUNT / minutes).toBeGreaterThanOrEqual(MIN_INVOICES_PER_MINUTE);

    // Control: the mint limits the requests of this machine.
    const statuses = new Set<number>();
    for (let sent = 0; sent < REQUESTS_OVER_ANY_LIMIT; sent += 1) {
      statuses.add((await fetch(`${deployment.directMintUrl}/v1/keysets`)).status);
    }
    expect(statuses).toEqual(new Set([200, 429]));
  },
  TIMEOUT_MS,
);

async function payNewRecipient({ service }: NutshellDeployment, index: number) {
  const recipient = new RecipientClient(service.publicOrigin);
  const socket = await recipient.openSocket();
  // Each payer has a different address, because the service limits the share of each address of the mint's limit.
  const headers = { 'x-forwarded-for': `198.18.0.${index}` };
  const path = `/.well-known/lnurlp/${recipient.npub}?amount=21000`;
  while ((await requestJson(service.url, path, { headers })).body.pr === undefined) {
    await delay(PAYER_RETRY_DELAY_MS);
  }
  const invoicedAtMs = performance.now();
  const quoteId = await waitForUpdate(socket);
  const paidAtMs = invoicedAtMs + PAYMENT_DELAY_SECONDS * 1_000;
  // Negative if a poll of the service made the fake backend pay earlier.
  const notificationDelayMs = Math.max(0, performance.now() - paidAtMs);
  expect(await socket.drainMessages()).toEqual([]);
  await socket.close();
  return { recipient, quoteId, invoicedAtMs, notificationDelayMs };
}
