import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
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

/** Nutshell exempts 127.0.0.1 from its limits, and nobody else. */
const HOST_WITH_LIMITS = '::1';

/** Nutshell's fake backend has every invoice paid so long after its making, or when it is asked. */
const PAYS_AFTER_SECONDS = 3;

/** A payer comes every second: three times what the mint allows, until all hundred are there. */
const BETWEEN_PAYERS_MS = 1_000;

/** Somebody who was told "try again later" does so after a few seconds. */
const PAYER_RETRY_MS = 5_000;

/**
 * The mint allows 20 new quotes and then wants a minute of quiet; of those the service leaves a few to
 * others. So a hundred take seven minutes, and there is some room for a slow machine.
 */
const RUN_TIMEOUT_MS = 510_000;

/** One more payer waits for a minute of quiet at most, and for the payment. */
const ONE_MORE_TIMEOUT_MS = 2 * 60_000;

/** Each request, a refused one too, makes Nutshell's count of the route last so long again. */
const MINT_WINDOW_MS = 60_000;

/** A request that left before the refusal of another was read could not heed it. */
const ON_THE_WAY_MS = 1_000;

/**
 * The first refusal teaches how much the mint allows, the second that its minute is elastic. One more
 * is room for a misreading; a service that does not learn has one for every 20 requests.
 */
const MAX_REFUSALS_OF_A_ROUTE = 3;

/** Half of the payments: the socket tells them, or the first look at a young quote. */
const USUALLY_SEEN_WITHIN_MS = 5_000;

/** Where the socket and the polls of it both have to rest: their minute, and some. */
const SEEN_WITHIN_MS = 75_000;

/** More than Nutshell allows on a route that only it, and not the service, uses. */
const REQUESTS_OVER_ANY_LIMIT = 61;

interface SeenPayment {
  recipient: TestWallet;
  quoteId: string;
  /** From the payment at the mint, or a little before it, until the recipient's socket was told. */
  seenAfterMs: number;
}

describe('a hundred recipients at one Nutshell with its default limits', () => {
  let nutshell: Nutshell;
  let proxy: CountingProxy;
  let testDatabase: TestDatabase;
  let database: Database;
  let service: Service;
  const payments: SeenPayment[] = [];
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
    console.log(`${seenTimes(payments)}\n${countsByRoute(proxy.requests)}`);
    await service.stop();
    await database.close();
    await testDatabase.drop();
    await proxy.close();
    await nutshell.stop();
  });

  it('each recipient has exactly the one payment that was made', async () => {
    expect(payments).toHaveLength(RECIPIENTS);
    for (const { recipient, quoteId } of payments) {
      expect(await recipient.listQuotes()).toMatchObject([
        { quoteId, state: 'PAID', mintUrl: proxy.url },
      ]);
    }
    expect(new Set(payments.map(({ quoteId }) => quoteId)).size).toBe(RECIPIENTS);
  });

  it('each payment is seen soon after the mint has it', () => {
    const seenAfterMs = payments.map((payment) => payment.seenAfterMs).sort((a, b) => a - b);
    expect(seenAfterMs[RECIPIENTS / 2]).toBeLessThan(USUALLY_SEEN_WITHIN_MS);
    expect(seenAfterMs.at(-1)).toBeLessThan(SEEN_WITHIN_MS);
  });

  it(
    'after all that, one more payer gets an invoice, and the payment is seen',
    async () => {
      const { recipient, quoteId, seenAfterMs } = await payNewRecipient();
      expect(await recipient.listQuotes()).toMatchObject([{ quoteId, state: 'PAID' }]);
      expect(seenAfterMs).toBeLessThan(SEEN_WITHIN_MS);
    },
    ONE_MORE_TIMEOUT_MS,
  );

  it('the mint refuses little, and where it does, it is left alone for its minute', () => {
    for (const route of COUNTED_ROUTES) {
      const requests = proxy.requests.filter((each) => each.route === route);
      const refusals = separateRefusals(requests).length;
      expect(refusals, `refused on ${route}`).toBeLessThanOrEqual(MAX_REFUSALS_OF_A_ROUTE);
      expect(tooSoonAfterRefusals(requests), `asked too soon on ${route}`).toEqual([]);
    }
  });

  it('the mint did count the requests of this machine', async () => {
    const statuses = new Set<number>();
    for (let asked = 0; asked < REQUESTS_OVER_ANY_LIMIT; asked += 1) {
      statuses.add((await fetch(`${nutshell.url}/v1/keysets`)).status);
    }
    expect(statuses).toEqual(new Set([200, 429]));
  });

  /** A recipient who is connected, a payer who wants an invoice for them, and its payment. */
  async function payNewRecipient(): Promise<SeenPayment> {
    const recipient = new TestWallet(service.publicOrigin);
    const socket = await recipient.openSocket();
    const askedAtMs = await getInvoice(recipient);
    const paidAtMs = askedAtMs + PAYS_AFTER_SECONDS * 1_000;
    const quoteId = await nextUpdate(socket);
    // Less than 0: a poll made the fake backend pay before the time.
    const seenAfterMs = Math.max(0, Date.now() - paidAtMs);
    expect(await socket.drain()).toEqual([]);
    await socket.close();
    return { recipient, quoteId, seenAfterMs };
  }

  /**
   * Asks for an invoice until there is one, from an address that nobody else has: a single one would get
   * half of what the mint allows. Resolves with when it was asked for.
   */
  async function getInvoice(recipient: TestWallet): Promise<number> {
    payers += 1;
    const headers = { 'x-forwarded-for': `198.18.0.${payers}` };
    for (;;) {
      const askedAtMs = Date.now();
      const path = `/.well-known/lnurlp/${recipient.npub}?amount=21000`;
      const { body } = await request(service.url, path, { headers });
      if (body.pr !== undefined) {
        return askedAtMs;
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

/** Refusals of one route, without those of requests that were on the way together with another. */
function separateRefusals(requests: readonly CountedRequest[]): CountedRequest[] {
  const refused = requests.filter((each) => each.isRefused);
  return refused.filter(({ askedAtMs }, index) => {
    const readAtMs = refused[index - 1]?.answeredAtMs ?? Number.NEGATIVE_INFINITY;
    return askedAtMs > readAtMs + ON_THE_WAY_MS;
  });
}

/**
 * Requests of one route that were sent although the mint had just refused another: each makes the
 * refusal last for a minute more, so that a service which goes on asking is never let in again.
 */
function tooSoonAfterRefusals(requests: readonly CountedRequest[]): CountedRequest[] {
  const refusedAtMs = requests.flatMap((each) =>
    each.isRefused && each.answeredAtMs !== null ? [each.answeredAtMs] : [],
  );
  return requests.filter(({ askedAtMs }) =>
    refusedAtMs.some(
      (atMs) => askedAtMs > atMs + ON_THE_WAY_MS && askedAtMs < atMs + MINT_WINDOW_MS,
    ),
  );
}

function seenTimes(payments: readonly SeenPayment[]): string {
  const sorted = payments.map(({ seenAfterMs }) => seenAfterMs).sort((a, b) => a - b);
  const at = (share: number) => `${sorted[Math.ceil(sorted.length * share) - 1]} ms`;
  return `${sorted.length} payments seen: p50 ${at(0.5)}, p99 ${at(0.99)}, the last ${at(1)}`;
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
