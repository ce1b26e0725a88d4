import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { toUnixSeconds } from '../../src/clock.ts';
import type { Db } from '../../src/database/transaction.ts';
import type { NewQuote } from '../../src/quotes/quote-store.ts';
import { insertQuotes } from '../../src/quotes/quote-store.ts';
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
import { useTestEnvironment } from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

/** Payments to one recipient that are more frequent than one per second. */

const LIST_PATH = '/api/v2/wallet/quotes';

const SECOND_MS = 1_000;

const clock = new TestClock();
const environment = useTestEnvironment({ overrides: { clock: clock.now } });
let db: Db;
let wallet: RecipientClient;

beforeAll(() => {
  db = environment.database.db;
});

beforeEach(() => {
  wallet = environment.newWallet();
  // Each test starts at a tenth of a second.
  clock.advance(SECOND_MS - (clock.nowMs % SECOND_MS) + 100);
  // Only the timers that wait for the next second; those of connections stay real.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  return () => vi.useRealTimers();
});

describe('payments in one second', () => {
  it('are listed together in the next second if a wallet has read the list', async () => {
    const socket = await wallet.openSocket();
    const quotes = await pay(1);
    await receiveUpdates(socket);
    const [firstTime = 0] = await listPaymentTimes();
    const later: NewQuote[] = [];
    for (let i = 0; i < 3; i += 1) {
      later.push(...(await pay(2)));
      pass(200);
      expect(await listIds()).toEqual(idsOf(quotes));
      expect(await receiveUpdates(socket)).toEqual([]);
    }
    pass(300);
    expect(await receiveUpdates(socket)).toEqual(idsOf(later));
    expect(await listIds()).toEqual(idsOf([...quotes, ...later]));
    expect(await listPaymentTimes()).toEqual([firstTime + 1, firstTime]);
    await socket.close();
  });

  it('are listed at the start of the next second even if the clock of the process is 150 ms behind', async () => {
    await pay(1);
    await listIds();
    await pay(1);
    pass(749);
    expect(await listIds()).toHaveLength(1);
    pass(1);
    expect(await listIds()).toHaveLength(2);
  });
});

describe('a payment that waits for the next second', () => {
  it('is settled at once, and has one update if it is minted before', async () => {
    const socket = await wallet.openSocket();
    await payAndRead();
    const [waiting] = (await pay(1)) as [NewQuote];
    await receiveUpdates(socket);
    const verify = await requestJson(environment.origin, `/lnurl/verify/${waiting.verifyToken}`);
    expect(verify.body).toMatchObject({ status: 'OK', settled: true });
    await record([waiting], 'ISSUED');
    expect(await receiveUpdates(socket)).toEqual([]);
    pass(SECOND_MS);
    expect(await receiveUpdates(socket)).toEqual([waiting.quoteId]);
    expect((await wallet.listPaidQuotes())[0]).toMatchObject({
      quoteId: waiting.quoteId,
      state: 'ISSUED',
    });
    await socket.close();
  });

  it('is in the totals at once', async () => {
    await payAndRead();
    await pay(2);
    const { body } = await wallet.get('/api/v2/wallet/summary');
    expect(body.data).toMatchObject({ payments: 3, waiting: { payments: 3 }, complete: true });
  });

  it('is not counted or paged', async () => {
    const quotes = await pay(6);
    const listed = idsOf(quotes).reverse();
    await listIds();
    await pay(3);
    const since = toUnixSeconds(clock.nowMs);
    for (const [query, expectedIds, total] of [
      ['', listed, 6],
      ['?limit=2&offset=1', listed.slice(1, 3), 6],
      ['?offset=6', [], 6],
      [`?since=${since - 1}`, listed, 6],
      [`?since=${since + 1}`, [], 0],
      [`?since=${since + 10}`, [], 0],
    ] as const) {
      const { body } = await wallet.get(LIST_PATH + query);
      const ids = body.data.quotes.map(({ quoteId }: { quoteId: string }) => quoteId);
      expect([query, ids, body.metadata.total]).toEqual([query, expectedIds, total]);
    }
  });
});

async function payAndRead(): Promise<void> {
  await pay(1);
  await listIds();
}

async function pay(count: number): Promise<NewQuote[]> {
  const quotes = Array.from({ length: count }, () =>
    buildUnpaidQuote(wallet.pubkey, { createdAtMs: clock.nowMs }),
  ).toSorted((one, other) => (one.quoteId < other.quoteId ? -1 : 1));
  await insertQuotes(db, quotes);
  await record(quotes, 'PAID');
  return quotes;
}

async function record(quotes: readonly NewQuote[], state: 'PAID' | 'ISSUED'): Promise<void> {
  await createObservationRecorder(db, { clock: clock.now }).record(
    UNREACHABLE_MINT_URL,
    quotes.map(({ quoteId }) => ({ quoteId, state, source: 'poll' })),
  );
  await waitForNotificationDelivery(environment.database);
}

function pass(ms: number): void {
  clock.advance(ms);
  vi.advanceTimersByTime(ms);
}

async function receiveUpdates(socket: TestQuoteSocket): Promise<string[]> {
  return (await socket.drainMessages()).map(({ payload }) => payload.quoteId);
}

async function listIds(): Promise<unknown[]> {
  return (await wallet.listPaidQuotes()).map(({ quoteId }) => quoteId).reverse();
}

function idsOf(quotes: readonly NewQuote[]): string[] {
  return quotes.map(({ quoteId }) => quoteId);
}

async function listPaymentTimes(): Promise<number[]> {
  return [...new Set((await wallet.listPaidQuotes()).map(({ paidAt }) => Number(paidAt)))];
}
