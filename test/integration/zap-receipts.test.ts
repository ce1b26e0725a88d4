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
import { useDatabase } from '../helpers/database.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import {
  buildUnpaidQuote,
  DEFAULT_CREATED_AT_MS,
  UNREACHABLE_MINT_URL,
} from '../helpers/quotes.ts';
import { createUnpayableInvoice } from '../helpers/scripted-mint.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { createZapRequest, TEST_ZAP_SECRET_KEY } from '../helpers/zap-requests.ts';

/** When the receipt of a zap is made, and that it is, on either database. */

const OPERATOR_RELAY = 'wss://operator.example';

const database = useDatabase();
let store: Store;
let signer: EventSigner;
let clock: TestClock;
let log: LogCapture;
let pubkey: string;

beforeAll(() => {
  store = new Store(database.db);
});

beforeAll(async () => {
  signer = await loadEventSigner(TEST_ZAP_SECRET_KEY);
});

beforeEach(async () => {
  await database.db.deleteFrom('quotes').execute();
  clock = new TestClock(DEFAULT_CREATED_AT_MS + 1_234);
  log = new LogCapture('warn');
  pubkey = randomBytes(32).toString('hex');
});

describe('a zap that is paid', () => {
  it('has a receipt that relays take after the clock was set back, and is listed last', async () => {
    const process = newProcess();
    clock.advance(86_400_000);
    const first = await keepZap();
    await process.record(first, 'PAID');
    clock.advance(-86_400_000);
    const second = await keepZap();
    await process.record(second, 'PAID');
    const { quotes: listed } = await listOf(pubkey);
    expect(listed.map(({ quoteId }) => quoteId)).toEqual([second.quoteId, first.quoteId]);
    expect(listed[0]?.paidAtMs).toBeGreaterThan(clock.nowMs + 86_000_000);
    expect((await receiptOf(second)).created_at).toBe(Math.floor((clock.nowMs + 5_000) / 1000));
  });

  it('has a receipt even if no relay can be used', async () => {
    const quote = await keepZap({ relays: ['wss://127.0.0.1', 'nonsense'] });
    const process = newProcess({ relays: [] });
    await process.record(quote, 'PAID');
    expect(await receiptOf(quote)).toMatchObject({ kind: 9735 });
    expect(await traced(quote)).toMatchObject({ deliveries: [] });
  });

  it.each(['INFLIGHT', 'ISSUED'] as const)(
    'has its receipt at the first sign of the payment, %s, and keeps it to the byte',
    async (first) => {
      const quote = await keepZap();
      const process = newProcess();
      await process.record(quote, first);
      const text = await receiptTextOf(quote);
      for (const state of ['PAID', 'INFLIGHT', 'ISSUED', 'UNPAID'] as const) {
        clock.advance(60_000);
        await process.record(quote, state);
      }
      expect(await receiptTextOf(quote)).toBe(text);
      expect(process.told).toBe(1);
    },
  );

  it('that many observe at once has one receipt, and somebody is told of it once', async () => {
    const quotes = [await keepZap(), await keepZap()];
    const [here, elsewhere] = [newProcess(), newProcess()];
    await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        (index % 2 === 0 ? here : elsewhere).record(
          index % 3 === 0 ? quotes : quotes.toReversed(),
          'PAID',
        ),
      ),
    );
    expect(await receiptCount()).toBe(2);
    expect(here.told + elsewhere.told).toBe(1);
    for (const quote of quotes) {
      expect((await traced(quote))?.deliveries).toHaveLength(2);
      expect(verifyEvent(await receiptOf(quote))).toBe(true);
    }
  });
});

describe('a payment without a receipt', () => {
  it('is a zap whose request was changed by hand, of which the operator is told', async () => {
    const spoilt = await keepZap();
    const fine = await keepZap();
    await database.db
      .updateTable('quotes')
      .set({ zap_request: '{"pubkey":"a secret"' })
      .where('quote_id', '=', spoilt.quoteId)
      .execute();
    await newProcess().record([spoilt, fine], 'PAID');
    expect((await listOf(pubkey)).total).toBe(2);
    expect(await receiptCount()).toBe(1);
    expect(log.lines).toHaveLength(1);
    expect(JSON.parse(log.lines[0] ?? '')).toMatchObject({
      quotes: [await rowOf(spoilt)],
      event: 'zap_request_unreadable',
    });
    expect(log.lines[0]).not.toContain('a secret');
    expect(log.lines[0]).not.toContain(spoilt.quoteId);
  });
});

/** A process that records what mints say. */
function newProcess(given: { relays?: string[] } = {}) {
  const receipts = createReceiptSigner({
    signer,
    operatorRelays: given.relays ?? [OPERATOR_RELAY],
    allowPrivateNetworks: false,
    log: log.log,
  });
  const process = {
    /** How often it was notified of new receipts. */
    told: 0,
    async record(quotes: NewQuote | readonly NewQuote[], state: ObservedState): Promise<void> {
      await recordObservations.record(
        UNREACHABLE_MINT_URL,
        [quotes].flat().map(({ quoteId }) => ({ quoteId, state, source: 'poll' })),
      );
    },
  };
  const onReceiptsCreated = () => {
    process.told += 1;
  };
  const recordObservations = new ObservationRecorder({
    store,
    anomalies: new MintAnomalyCounter(log.log),
    zaps: { receipts, onReceiptsCreated },
    clock: clock.now,
    log: log.log,
  });
  return process;
}

interface ZapOptions {
  recipient?: string;
  amountSat?: number;
  relays?: string[];
}

async function keepZap(given: ZapOptions = {}): Promise<NewQuote> {
  const quote = newZap(given);
  await store.quotes.insert([quote]);
  return quote;
}

function newZap({ recipient = pubkey, amountSat = 21, relays }: ZapOptions = {}): NewQuote {
  const amountMsat = amountSat * 1000;
  const comment = 'a "good" note 🥜';
  const { text } = createZapRequest({ recipient, amountMsat, comment, ...(relays && { relays }) });
  return buildUnpaidQuote(recipient, {
    amountSat,
    request: createUnpayableInvoice(amountMsat),
    zapRequest: text,
  });
}

function listOf(recipient: string) {
  return store.quotes.listPaid(recipient, { sinceSeconds: null, limit: 50, offset: 0 });
}

async function rowOf({ quoteId }: NewQuote): Promise<number> {
  return (await store.watchedQuotes.findByQuoteIds(UNREACHABLE_MINT_URL, [quoteId]))[0]?.id ?? 0;
}

async function traced(quote: NewQuote) {
  return store.zapReceipts.findByQuote(await rowOf(quote));
}

async function receiptTextOf(quote: NewQuote): Promise<string> {
  const { event } = await database.db
    .selectFrom('zap_receipts')
    .select('event')
    .where('quote', '=', await rowOf(quote))
    .executeTakeFirstOrThrow();
  return event;
}

async function receiptOf(quote: NewQuote | undefined): Promise<Event> {
  return JSON.parse(quote === undefined ? '' : await receiptTextOf(quote));
}

async function receiptCount(): Promise<number> {
  return (await database.db.selectFrom('zap_receipts').select('id').execute()).length;
}
