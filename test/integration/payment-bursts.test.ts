import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { NewQuote } from '../../src/quotes/quote-store.ts';
import { Store } from '../../src/store.ts';
import { waitForNotificationDelivery } from '../helpers/database/database-notifications.ts';
import {
  buildUnpaidQuote,
  createObservationRecorder,
  UNREACHABLE_MINT_URL,
} from '../helpers/recipients/quote-fixtures.ts';
import {
  type RecipientClient,
  requestJson,
  type TestQuoteSocket,
} from '../helpers/recipients/recipient-client.ts';
import { useAdditionalService, useTestEnvironment } from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

/** Payments to one recipient that are more frequent than one per second. */

const LIST_PATH = '/api/v2/wallet/quotes';

/** Payments of a burst get one second each, and are listed at most 5 s before it. */
const LISTED_AT_ONCE = 6;

const SECOND_MS = 1_000;
const HOUR_MS = 3_600_000;

const clock = new TestClock();
const environment = useTestEnvironment({ overrides: { clock: clock.now } });
let store: Store;
let wallet: RecipientClient;

beforeAll(() => {
  store = new Store(environment.database.db);
});

beforeEach(() => {
  wallet = environment.newWallet();
  // Every payment of the previous test is listed.
  clock.advance(2 * 60_000);
  // Only the timers that wait for the listing; those of connections stay real.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  return () => vi.useRealTimers();
});

describe('a burst of 20 payments', () => {
  it('causes one update per payment, each when the payment is in the list', async () => {
    const socket = await wallet.openSocket();
    const quotes = await pay(20);
    expect(await receiveUpdates(socket)).toEqual(idsOf(quotes.slice(0, LISTED_AT_ONCE)));
    for (let listedCount = LISTED_AT_ONCE; listedCount < quotes.length; listedCount += 1) {
      expect(await listIds()).toEqual(idsOf(quotes.slice(0, listedCount)));
      passSecond();
      expect(await receiveUpdates(socket)).toEqual(idsOf([quotes[listedCount] as NewQuote]));
    }
    expect(await listIds()).toEqual(idsOf(quotes));
    await socket.close();
  });

  it('is settled at once, and a payment that is minted before its listing has one update', async () => {
    const socket = await wallet.openSocket();
    const quotes = await pay(LISTED_AT_ONCE + 1);
    const unlisted = quotes.at(-1) as NewQuote;
    await receiveUpdates(socket);
    const verify = await requestJson(environment.origin, `/lnurl/verify/${unlisted.verifyToken}`);
    expect(verify.body).toMatchObject({ status: 'OK', settled: true });
    await record([unlisted], 'ISSUED');
    expect(await receiveUpdates(socket)).toEqual([]);
    passSecond();
    expect(await receiveUpdates(socket)).toEqual([unlisted.quoteId]);
    expect((await wallet.listPaidQuotes())[0]).toMatchObject({
      quoteId: unlisted.quoteId,
      state: 'ISSUED',
    });
    await socket.close();
  });

  it('causes updates from a process that has started since, and for a socket that has opened since', async () => {
    const quotes = await pay(LISTED_AT_ONCE + 1);
    const service = await useAdditionalService(environment, {}, { clock: clock.now });
    const socket = await wallet.openSocket();
    const otherSocket = await wallet.withOrigin(service.publicOrigin).openSocket();
    passSecond();
    for (const each of [socket, otherSocket]) {
      expect(await receiveUpdates(each)).toEqual(idsOf(quotes.slice(-1)));
      await each.close();
    }
  });

  it('is added up without the payments that are not listed yet', async () => {
    await pay(20);
    const readPaymentCount = async () =>
      (await wallet.get('/api/v2/wallet/summary')).body.data.payments;
    expect(await readPaymentCount()).toBe(LISTED_AT_ONCE);
    passSecond();
    expect(await readPaymentCount()).toBe(LISTED_AT_ONCE + 1);
  });

  it('is counted and paged without the payments that are not listed yet', async () => {
    const quotes = await pay(20);
    const listed = idsOf(quotes.slice(0, LISTED_AT_ONCE)).reverse();
    const since = Math.floor(clock.nowMs / 1000) + 3;
    for (const [query, expectedIds, total] of [
      ['', listed, LISTED_AT_ONCE],
      ['?limit=2&offset=1', listed.slice(1, 3), LISTED_AT_ONCE],
      [`?offset=${LISTED_AT_ONCE}`, [], LISTED_AT_ONCE],
      [`?since=${since}`, listed.slice(0, 3), 3],
      [`?since=${since + 3}`, [], 0],
      [`?since=${since + 10}`, [], 0],
    ] as const) {
      const { body } = await wallet.get(LIST_PATH + query);
      const ids = body.data.quotes.map(({ quoteId }: { quoteId: string }) => quoteId);
      expect([query, ids, body.metadata.total]).toEqual([query, expectedIds, total]);
    }
  });
});

it('is received by a wallet that ignores payments not later than its newest one, at 200 payments per second', async () => {
  const quotes: NewQuote[] = [];
  const receivedIds: unknown[] = [];
  let newestPaidAt = 0;
  const synchronize = async () => {
    const listed = await wallet.listPaidQuotes(newestPaidAt);
    const received = listed.filter(({ paidAt }) => Number(paidAt) > newestPaidAt);
    receivedIds.push(...received.map(({ quoteId }) => quoteId));
    newestPaidAt = Math.max(newestPaidAt, ...received.map(({ paidAt }) => Number(paidAt)));
  };
  for (let batch = 0; batch < 30; batch += 1) {
    quotes.push(...(await pay(20)));
    await synchronize();
    clock.advance(100);
  }
  for (let seconds = 0; seconds < 60; seconds += 1) {
    await synchronize();
    passSecond();
  }
  expect(receivedIds.toSorted()).toEqual(idsOf(quotes).toSorted());
});

describe.each([
  ['half a minute', 30_000],
  ['an hour', HOUR_MS],
])('after the clock was set back by %s', (_name, setBackMs) => {
  it('hides no payment for more than a minute', async () => {
    const quotes = await pay(20);
    clock.advance(60_000);
    quotes.push(...(await pay(3)));
    clock.advance(-setBackMs);
    const hiddenSinceMs = new Map<string, number>();
    const endMs = clock.nowMs + setBackMs + 120_000;
    for (let round = 0; clock.nowMs < endMs; round += 1) {
      if (round < 3 || round % 60 === 0) {
        quotes.push(...(await pay(2)));
      }
      const listed = new Set(await listIds());
      for (const { quoteId } of quotes) {
        const sinceMs = hiddenSinceMs.get(quoteId) ?? clock.nowMs;
        expect(clock.nowMs - sinceMs).toBeLessThanOrEqual(60_000);
        if (listed.has(quoteId)) {
          hiddenSinceMs.delete(quoteId);
        } else {
          hiddenSinceMs.set(quoteId, sinceMs);
        }
      }
      clock.advance(10 * SECOND_MS);
    }
    clock.advance(60_000);
    expect(await listIds()).toEqual(idsOf(quotes));
  });
});

/** Makes payments to the wallet's recipient at the same time. Returns them in the order of the list, oldest first. */
async function pay(count: number): Promise<NewQuote[]> {
  const quotes = Array.from({ length: count }, () =>
    buildUnpaidQuote(wallet.pubkey, { createdAtMs: clock.nowMs }),
  );
  for (const quote of quotes) {
    await store.quotes.insert([quote]);
  }
  await record(quotes, 'PAID');
  return quotes;
}

async function record(quotes: readonly NewQuote[], state: 'PAID' | 'ISSUED'): Promise<void> {
  await createObservationRecorder(store, { clock: clock.now }).record(
    UNREACHABLE_MINT_URL,
    quotes.map(({ quoteId }) => ({ quoteId, state, source: 'poll' })),
  );
  await waitForNotificationDelivery(environment.database);
}

function passSecond(): void {
  clock.advance(SECOND_MS);
  vi.advanceTimersByTime(SECOND_MS);
}

/** Returns the quote ids of the updates that the socket has received since the last call. */
async function receiveUpdates(socket: TestQuoteSocket): Promise<string[]> {
  return (await socket.drainMessages()).map(({ payload }) => payload.quoteId);
}

/** Returns the quote ids of the list, oldest first. */
async function listIds(): Promise<unknown[]> {
  return (await wallet.listPaidQuotes()).map(({ quoteId }) => quoteId).reverse();
}

function idsOf(quotes: readonly NewQuote[]): string[] {
  return quotes.map(({ quoteId }) => quoteId);
}
