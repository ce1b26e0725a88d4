import { randomBytes } from 'node:crypto';
import type { Event } from 'nostr-tools';
import { verifyEvent } from 'nostr-tools';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { MintAnomalyCounter } from '../../src/mints/mint-anomalies.ts';
import type { ObservedState } from '../../src/mints/quote-responses.ts';
import { type EventSigner, loadEventSigner } from '../../src/nostr/events.ts';
import { ObservationRecorder } from '../../src/quotes/observation-recorder.ts';
import type { NewQuote } from '../../src/quotes/quote-store.ts';
import { Store } from '../../src/store.ts';
import { createReceiptSigner } from '../../src/zaps/zap-receipts.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';
import { createUnpayableInvoice } from '../helpers/mints/fake-mint-with-scripted-quotes.ts';
import {
  buildUnpaidQuote,
  DEFAULT_QUOTE_CREATED_AT_MS,
  UNREACHABLE_MINT_URL,
} from '../helpers/recipients/quote-fixtures.ts';
import { createZapRequest, TEST_ZAP_SECRET_KEY } from '../helpers/relays/zap-requests.ts';
import { LogCapture } from '../helpers/service/log-capture.ts';
import { TestClock } from '../helpers/test-clock.ts';

const OPERATOR_RELAY = 'wss://operator.example';

const DAY_MS = 24 * 60 * 60_000;

/** Relays may reject receipts whose time is further in the future. */
const MAX_RECEIPT_AHEAD_OF_CLOCK_MS = 5_000;

const database = useTestDatabase();
let store: Store;
let signer: EventSigner;
let clock: TestClock;
let logs: LogCapture;
let pubkey: string;

beforeAll(async () => {
  store = new Store(database.db);
  signer = await loadEventSigner(TEST_ZAP_SECRET_KEY);
});

beforeEach(async () => {
  await database.db.deleteFrom('quotes').execute();
  clock = new TestClock(DEFAULT_QUOTE_CREATED_AT_MS + 1_234);
  logs = new LogCapture('warn');
  pubkey = randomBytes(32).toString('hex');
});

describe('a paid zap', () => {
  it('is listed as the newest payment after the clock was set back, but its receipt has a plausible time', async () => {
    const recorder = createRecorder();
    clock.advance(DAY_MS);
    const first = await insertZapQuote();
    await recorder.record(first, 'PAID');
    clock.advance(-DAY_MS);
    const second = await insertZapQuote();
    await recorder.record(second, 'PAID');
    const { quotes: listed } = await listPayments();
    expect(listed.map(({ quoteId }) => quoteId)).toEqual([second.quoteId, first.quoteId]);
    expect(listed[0]?.paidAtMs).toBeGreaterThan(clock.nowMs + 0.99 * DAY_MS);
    const latestCreatedAtMs = clock.nowMs + MAX_RECEIPT_AHEAD_OF_CLOCK_MS;
    expect((await readReceipt(second)).created_at).toBe(Math.floor(latestCreatedAtMs / 1000));
  });

  it('has a receipt even if none of its relay URLs is allowed', async () => {
    const quote = await insertZapQuote({ relays: ['wss://127.0.0.1', 'nonsense'] });
    const recorder = createRecorder({ operatorRelays: [] });
    await recorder.record(quote, 'PAID');
    expect(await readReceipt(quote)).toMatchObject({ kind: 9735 });
    expect(await findStoredReceipt(quote)).toMatchObject({ deliveries: [] });
  });

  it.each(['INFLIGHT', 'ISSUED'] as const)(
    'gets a receipt when the first reported state is %s, and the receipt never changes',
    async (firstState) => {
      const quote = await insertZapQuote();
      const recorder = createRecorder();
      await recorder.record(quote, firstState);
      const receiptJson = await readReceiptJson(quote);
      for (const state of ['PAID', 'INFLIGHT', 'ISSUED', 'UNPAID'] as const) {
        clock.advance(60_000);
        await recorder.record(quote, state);
      }
      expect(await readReceiptJson(quote)).toBe(receiptJson);
      expect(recorder.notificationCount).toBe(1);
    },
  );

  it('gets one receipt, with one notification, if two processes record it many times concurrently', async () => {
    const quotes = [await insertZapQuote(), await insertZapQuote()];
    const [first, second] = [createRecorder(), createRecorder()];
    await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        (index % 2 === 0 ? first : second).record(
          index % 3 === 0 ? quotes : quotes.toReversed(),
          'PAID',
        ),
      ),
    );
    expect(await countReceipts()).toBe(2);
    // Both receipts were created in one transaction, and only its process was notified.
    expect(first.notificationCount + second.notificationCount).toBe(1);
    for (const quote of quotes) {
      expect((await findStoredReceipt(quote))?.deliveries).toHaveLength(2);
      expect(verifyEvent(await readReceipt(quote))).toBe(true);
    }
  });
});

describe('a paid zap whose stored zap request is invalid', () => {
  it('is recorded without a receipt, and logged', async () => {
    const invalid = await insertZapQuote();
    const valid = await insertZapQuote();
    await database.db
      .updateTable('quotes')
      .set({ zap_request: '{"pubkey":"a secret"' })
      .where('quote_id', '=', invalid.quoteId)
      .execute();
    await createRecorder().record([invalid, valid], 'PAID');
    expect((await listPayments()).total).toBe(2);
    expect(await countReceipts()).toBe(1);
    expect(logs.lines).toHaveLength(1);
    expect(JSON.parse(logs.lines[0] ?? '')).toMatchObject({
      quotes: [await findRowId(invalid)],
      event: 'zap_request_unreadable',
    });
    expect(logs.lines[0]).not.toContain('a secret');
    expect(logs.lines[0]).not.toContain(invalid.quoteId);
  });
});

/** Creates a recorder as in a separate process. */
function createRecorder({ operatorRelays = [OPERATOR_RELAY] } = {}) {
  const receiptSigner = createReceiptSigner({
    signer,
    operatorRelays,
    allowPrivateNetworks: false,
    log: logs.log,
  });
  const recorder = {
    /** Number of notifications about new receipts. */
    notificationCount: 0,
    async record(quotes: NewQuote | readonly NewQuote[], state: ObservedState): Promise<void> {
      await observationRecorder.record(
        UNREACHABLE_MINT_URL,
        [quotes].flat().map(({ quoteId }) => ({ quoteId, state, source: 'poll' })),
      );
    },
  };
  const onReceiptsCreated = () => {
    recorder.notificationCount += 1;
  };
  const observationRecorder = new ObservationRecorder({
    store,
    anomalies: new MintAnomalyCounter(logs.log),
    zaps: { signReceipts: receiptSigner, onReceiptsCreated },
    clock: clock.now,
    log: logs.log,
  });
  return recorder;
}

/** Inserts an unpaid quote with a zap request. */
async function insertZapQuote(options: { relays?: string[] } = {}): Promise<NewQuote> {
  const amountSat = 21;
  const amountMsat = amountSat * 1000;
  const comment = 'a "good" note 🥜';
  const { text } = createZapRequest({ recipient: pubkey, amountMsat, comment, ...options });
  const quote = buildUnpaidQuote(pubkey, {
    amountSat,
    request: createUnpayableInvoice(amountMsat),
    zapRequest: text,
  });
  await store.quotes.insert([quote]);
  return quote;
}

function listPayments() {
  return store.quotes.listPaid(pubkey, { sinceSeconds: null, limit: 50, offset: 0 });
}

async function findRowId({ quoteId }: NewQuote): Promise<number> {
  return (await store.watchedQuotes.findByQuoteIds(UNREACHABLE_MINT_URL, [quoteId]))[0]?.id ?? 0;
}

async function findStoredReceipt(quote: NewQuote) {
  return store.zapReceipts.findByQuote(await findRowId(quote));
}

async function readReceiptJson(quote: NewQuote): Promise<string> {
  const { event } = await database.db
    .selectFrom('zap_receipts')
    .select('event')
    .where('quote', '=', await findRowId(quote))
    .executeTakeFirstOrThrow();
  return event;
}

async function readReceipt(quote: NewQuote): Promise<Event> {
  return JSON.parse(await readReceiptJson(quote));
}

async function countReceipts(): Promise<number> {
  return (await database.db.selectFrom('zap_receipts').select('id').execute()).length;
}
