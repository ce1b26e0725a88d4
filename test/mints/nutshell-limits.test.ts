import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { percentile } from '../../bench/harness/statistics.ts';
import { type Nutshell, startNutshell } from '../../scripts/nutshell.ts';
import { openLog } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import type { Database } from '../../src/store/database.ts';
import { createTestDatabase, type TestDatabase } from '../helpers/database.ts';
import { request, type TestSocket, TestWallet } from '../helpers/wallet.ts';
import { testConfig } from '../helpers/world.ts';
import {
  COUNTED_ROUTES,
  type CountedRequest,
  type CountingProxy,
  startCountingProxy,
} from './counting-proxy.ts';

const RECIPIENTS = 100;

/** Nutshell exempts 127.0.0.1 from its limits, and no other address. */
const HOST_WITH_LIMITS = '::1';

/** Nutshell's fake backend pays every invoice after this time, or when the quote is read. */
const PAYS_AFTER_SECONDS = 3;

/** Three payers a minute for each invoice that the mint allows, until all hundred are served. */
const BETWEEN_PAYERS_MS = 1_000;

/** A payer who was told "try again later" does so after a few seconds. */
const PAYER_RETRY_MS = 5_000;

const MINUTE_MS = 60_000;

/** What a mint with an elastic limit of 20 a minute must give. */
const MIN_INVOICES_PER_MINUTE = 12;

/** A hundred invoices at that rate, and their payments. */
const RUN_TIMEOUT_MS = (RECIPIENTS / MIN_INVOICES_PER_MINUTE + 2) * MINUTE_MS;

/** One more payer waits for a quiet minute at most, and for the payment. */
const ONE_MORE_TIMEOUT_MS = 2 * MINUTE_MS;

/** Of 95 % of the payments: the mint limits invoices, so it bears a subscription of each. */
const NOTIFIED_WITHIN_MS = 5_000;

/** More than Nutshell allows on a route that only it, and not the service, uses. */
const REQUESTS_OVER_ANY_LIMIT = 61;

interface NotifiedPayment {
  recipient: TestWallet;
  quoteId: string;
  /** When the payer had the invoice (`performance.now()`). */
  invoicedAtMs: number;
  /** From the payment at the mint until the recipient's `update`. */
  notifiedAfterMs: number;
}

describe('a hundred recipients at one Nutshell with its default limits', () => {
  let nutshell: Nutshell;
  let proxy: CountingProxy;
  let testDatabase: TestDatabase;
  let database: Database;
  let service: Service;
  const payments: NotifiedPayment[] = [];
  let payers = 0;

  beforeAll(async () => {
    nutshell = await startNutshell({
      env: {
        MINT_LISTEN_HOST: HOST_WITH_LIMITS,
        FAKEWALLET_DELAY_INCOMING_PAYMENT: String(PAYS_AFTER_SECONDS),
      },
    });
    proxy = await startCountingProxy(nutshell.url);
    testDatabase = await createTestDatabase();
    database = await testDatabase.open();
    const config = testConfig(proxy.url, { TRUST_PROXY: '127.0.0.1' });
    service = await startService(config, { database, log: openLog('silent') });
    await Promise.all(
      Array.from({ length: RECIPIENTS }, async (_, index) => {
        await delay(index * BETWEEN_PAYERS_MS);
        payments.push(await payNewRecipient());
      }),
    );
  }, RUN_TIMEOUT_MS);

  afterAll(async () => {
    console.log(`${describeDelays(payments)}\n${countsByRoute(proxy.requests)}`);
    await service.stop();
    await database.close();
    await testDatabase.drop();
    await proxy.close();
    await nutshell.stop();
  });

  it('lists exactly one payment for each recipient', async () => {
    expect(payments).toHaveLength(RECIPIENTS);
    for (const { recipient, quoteId } of payments) {
      expect(await recipient.listQuotes()).toMatchObject([
        { quoteId, state: 'PAID', mintUrl: proxy.url },
      ]);
    }
    expect(new Set(payments.map(({ quoteId }) => quoteId)).size).toBe(RECIPIENTS);
  });

  it('sends update within 5 s of a payment at p95', () => {
    const delaysMs = payments.map(({ notifiedAfterMs }) => notifiedAfterMs).sort((a, b) => a - b);
    expect(percentile(delaysMs, 0.95)).toBeLessThanOrEqual(NOTIFIED_WITHIN_MS);
  });

  it('gives 12 invoices a minute', () => {
    const timesMs = payments.map(({ invoicedAtMs }) => invoicedAtMs);
    const minutes = (Math.max(...timesMs) - Math.min(...timesMs)) / MINUTE_MS;
    expect(RECIPIENTS / minutes).toBeGreaterThanOrEqual(MIN_INVOICES_PER_MINUTE);
  });

  it(
    'serves one more payer after all that',
    async () => {
      const { recipient, quoteId, notifiedAfterMs } = await payNewRecipient();
      expect(await recipient.listQuotes()).toMatchObject([{ quoteId, state: 'PAID' }]);
      expect(notifiedAfterMs).toBeLessThanOrEqual(NOTIFIED_WITHIN_MS);
    },
    ONE_MORE_TIMEOUT_MS,
  );

  it('really limits the requests of this machine', async () => {
    const statuses = new Set<number>();
    for (let asked = 0; asked < REQUESTS_OVER_ANY_LIMIT; asked += 1) {
      statuses.add((await fetch(`${nutshell.url}/v1/keysets`)).status);
    }
    expect(statuses).toEqual(new Set([200, 429]));
  });

  /** Opens a recipient's socket, gets an invoice for them, and waits for the `update` of its payment. */
  async function payNewRecipient(): Promise<NotifiedPayment> {
    const recipient = new TestWallet(service.publicOrigin);
    const socket = await recipient.openSocket();
    const invoicedAtMs = await getInvoice(recipient);
    const paidAtMs = invoicedAtMs + PAYS_AFTER_SECONDS * 1_000;
    const quoteId = await nextUpdate(socket);
    // Less than 0: a poll made the fake backend pay early.
    const notifiedAfterMs = Math.max(0, performance.now() - paidAtMs);
    expect(await socket.drain()).toEqual([]);
    await socket.close();
    return { recipient, quoteId, invoicedAtMs, notifiedAfterMs };
  }

  /**
   * Asks for an invoice until there is one, from an address of its own, because payers of one address get
   * only a share of what the mint allows. Returns when the invoice came.
   */
  async function getInvoice(recipient: TestWallet): Promise<number> {
    payers += 1;
    const headers = { 'x-forwarded-for': `198.18.0.${payers}` };
    for (;;) {
      const path = `/.well-known/lnurlp/${recipient.npub}?amount=21000`;
      const { body } = await request(service.url, path, { headers });
      if (body.pr !== undefined) {
        return performance.now();
      }
      expect(body.status).toBe('ERROR');
      await delay(PAYER_RETRY_MS);
    }
  }
});

async function nextUpdate(socket: TestSocket): Promise<string> {
  const message = await socket.next();
  expect(message.type).toBe('update');
  return message.payload.quoteId;
}

function describeDelays(payments: readonly NotifiedPayment[]): string {
  const delaysMs = payments.map(({ notifiedAfterMs }) => notifiedAfterMs).sort((a, b) => a - b);
  const at = (share: number) => `${Math.round(percentile(delaysMs, share))} ms`;
  return `${delaysMs.length} updates: p50 ${at(0.5)}, p95 ${at(0.95)}, the last ${at(1)}`;
}

/** One line for each route. */
function countsByRoute(requests: readonly CountedRequest[]): string {
  const startedAtMs = requests[0]?.askedAtMs ?? 0;
  return COUNTED_ROUTES.map((route) => {
    const asked = requests.filter((each) => each.route === route);
    const refused = asked.filter((each) => each.isRefused);
    const seconds = refused.map((each) => Math.round((each.askedAtMs - startedAtMs) / 1000));
    const when = refused.length > 0 ? `, after ${seconds.join(', ')} s` : '';
    return `${route}: ${asked.length} asked, ${refused.length} refused${when}`;
  }).join('\n');
}
