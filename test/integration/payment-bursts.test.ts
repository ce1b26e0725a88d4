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
import { useAdditionalService, useTestEnvironment } from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

/** Payments to one recipient that are more frequent than one per second. */

const LIST_PATH = '/api/v2/wallet/quotes';

const SECOND_MS = 1_000;
const STEP_MS = 100;

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
  it('are all listed at once if no wallet has read the list since the first one', async () => {
    const socket = await wallet.openSocket();
    const quotes = await pay(10);
    pass(300);
    quotes.push(...(await pay(10)));
    expect(await receiveUpdates(socket)).toEqual(idsOf(quotes));
    expect(await listIds()).toEqual(idsOf(quotes));
    expect(await listPaymentTimes()).toEqual([toUnixSeconds(clock.nowMs)]);
    await socket.close();
  });

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

  it('causes updates from a process that has started since, and for a socket that has opened since', async () => {
    await payAndRead();
    const waiting = await pay(1);
    const service = await useAdditionalService(environment, {}, { clock: clock.now });
    const socket = await wallet.openSocket();
    const otherSocket = await wallet.withOrigin(service.publicOrigin).openSocket();
    pass(SECOND_MS);
    for (const each of [socket, otherSocket]) {
      expect(await receiveUpdates(each)).toEqual(idsOf(waiting));
      await each.close();
    }
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

describe.each([5, 200])('%i payments per second for 20 s', (perSecond) => {
  it.each([
    ['reads after updates', Number.POSITIVE_INFINITY],
    ['also reads ten times per second', 100],
  ])(
    'have updates within 0.7 s at the median and 1.5 s at most, and a wallet with a watermark that %s receives them',
    async (_name, readIntervalMs) => {
      const socket = await wallet.openSocket();
      const reader = new WatermarkReader(wallet);
      const startMs = clock.nowMs;
      const paidAtMsById = new Map<string, number>();
      const delaysMs: number[] = [];
      for (let elapsedMs = 0; elapsedMs < 22_000; elapsedMs += STEP_MS) {
        if (elapsedMs < 20_000) {
          const dueCount = Math.ceil((elapsedMs * perSecond) / 1000) - paidAtMsById.size;
          for (const { quoteId } of dueCount > 0 ? await pay(dueCount) : []) {
            paidAtMsById.set(quoteId, clock.nowMs);
          }
        }
        const updatedIds = await receiveUpdates(socket);
        delaysMs.push(...updatedIds.map((id) => clock.nowMs - (paidAtMsById.get(id) ?? startMs)));
        if (updatedIds.length > 0 || elapsedMs % readIntervalMs === 0) {
          await reader.synchronize();
          expect(reader.newestPaidAt * 1000).toBeLessThanOrEqual(clock.nowMs + 150);
        }
        pass(STEP_MS);
      }
      expect(delaysMs).toHaveLength(paidAtMsById.size);
      expect(Math.max(...delaysMs)).toBeLessThanOrEqual(1_500);
      expect(delaysMs.toSorted((a, b) => a - b)[delaysMs.length / 2]).toBeLessThanOrEqual(700);
      expect(reader.quoteIds.toSorted()).toEqual([...paidAtMsById.keys()].toSorted());
      await socket.close();
    },
  );
});

it('hides no listed payment after the clock was set back by an hour, and lists each new one within 5 s', async () => {
  const reader = new WatermarkReader(wallet);
  const quotes = await pay(3);
  await reader.synchronize();
  clock.advance(-3_600_000);
  expect(await listIds()).toEqual(idsOf(quotes));
  for (let round = 0; round < 3; round += 1) {
    quotes.push(...(await pay(2)));
    await reader.synchronize();
    pass(5_000);
    expect(await listIds()).toEqual(idsOf(quotes));
    await reader.synchronize();
  }
  expect(reader.quoteIds).toEqual(idsOf(quotes));
});

/** A wallet like coco, which ignores payments that are not later than the newest one that it knows. */
class WatermarkReader {
  /** In the order of the payments. */
  readonly quoteIds: string[] = [];
  newestPaidAt = 0;
  readonly #wallet: RecipientClient;

  constructor(recipient: RecipientClient) {
    this.#wallet = recipient;
  }

  async synchronize(): Promise<void> {
    const listed = await this.#wallet.listPaidQuotes(this.newestPaidAt);
    const received = listed.filter(({ paidAt }) => Number(paidAt) > this.newestPaidAt);
    this.quoteIds.push(...received.map(({ quoteId }) => String(quoteId)).reverse());
    this.newestPaidAt = Math.max(
      this.newestPaidAt,
      ...received.map(({ paidAt }) => Number(paidAt)),
    );
  }
}

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
