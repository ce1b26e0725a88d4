import { randomBytes } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { toUnixSeconds } from '../../src/clock.ts';
import type { Db } from '../../src/database/transaction.ts';
import type { ObservedState } from '../../src/mints/quote-responses.ts';
import { type EventSigner, loadEventSigner } from '../../src/nostr/events.ts';
import { listPaidQuotes } from '../../src/quotes/paid-list-store.ts';
import { listQuoteEvents } from '../../src/quotes/quote-event-store.ts';
import type { NewQuote } from '../../src/quotes/quote-store.ts';
import { insertQuotes } from '../../src/quotes/quote-store.ts';
import { findQuotesByQuoteId } from '../../src/quotes/watched-quote-store.ts';
import { createReceiptSigner } from '../../src/zaps/zap-receipts.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';
import { createUnpayableInvoice } from '../helpers/mints/fake-mint-with-scripted-quotes.ts';
import { createMintPolicy } from '../helpers/mints/mint-policy.ts';
import {
  buildUnpaidQuote,
  createObservationRecorder,
  DEFAULT_QUOTE_CREATED_AT_MS,
  UNREACHABLE_MINT_URL,
} from '../helpers/recipients/quote-fixtures.ts';
import { createZapRequest, TEST_ZAP_SECRET_KEY } from '../helpers/relays/zap-requests.ts';
import { LogCapture } from '../helpers/service/log-capture.ts';
import { TestClock } from '../helpers/test-clock.ts';

const DAY_MS = 24 * 60 * 60_000;

const database = useTestDatabase();
let db: Db;
let signer: EventSigner;
let clock: TestClock;
let logs: LogCapture;
let pubkey: string;

beforeAll(async () => {
  ({ db } = database);
  signer = await loadEventSigner(TEST_ZAP_SECRET_KEY);
});

beforeEach(async () => {
  await db.deleteFrom('quotes').execute();
  clock = new TestClock(DEFAULT_QUOTE_CREATED_AT_MS + 1_234);
  logs = new LogCapture('warn');
  pubkey = randomBytes(32).toString('hex');
});

describe('a zap request that was used for several invoices', () => {
  const DAYS_UNTIL_RECEIPTS_ARE_DELETED = 30;

  it('gets one receipt if two processes record its payments concurrently', async () => {
    for (let round = 0; round < 10; round += 1) {
      const quotes = await insertQuotesOfOneZapRequest();
      await Promise.all(quotes.map((quote) => createRecorder().record(quote, 'PAID')));
      expect(await countReceipts()).toBe(round + 1);
    }
    expect((await listPayments()).total).toBe(20);
  });

  it('gets no second receipt after the first one was deleted', async () => {
    const [first, second] = await insertQuotesOfOneZapRequest(clock.nowMs);
    const recorder = createRecorder();
    await recorder.record(first, 'PAID');
    clock.advance(DAYS_UNTIL_RECEIPTS_ARE_DELETED * DAY_MS);
    await db.deleteFrom('zap_receipts').execute();
    await recorder.record(second, 'PAID');
    expect((await listPayments()).total).toBe(2);
    expect(await countReceipts()).toBe(0);
    expect(await listRefusals(second)).toEqual(['zap_request_too_old']);
  });
});

it('signs no receipt for a zap at a mint that ZAP_MINTS does not name when the payment is recorded', async () => {
  const quote = await insertZapQuote();
  await createRecorder({ zapMintUrls: ['https://other.example'] }).record(quote, 'PAID');
  expect((await listPayments()).quotes).toMatchObject([{ zapRequest: quote.zapRequest }]);
  expect(await countReceipts()).toBe(0);
  expect(await listRefusals(quote)).toEqual(['mint_not_in_zap_mints']);
});

it('records a zap whose stored zap request is invalid without a receipt', async () => {
  const invalid = { ...buildZapQuote(), zapRequest: '{"pubkey":"a secret"' };
  await insertQuotes(db, [invalid]);
  await createRecorder().record([invalid, await insertZapQuote()], 'PAID');
  expect((await listPayments()).total).toBe(2);
  expect(await countReceipts()).toBe(1);
});

function createRecorder({ zapMintUrls = [UNREACHABLE_MINT_URL] } = {}) {
  const signReceipts = createReceiptSigner({
    signer,
    operatorRelays: ['wss://operator.example'],
    mintPolicy: createMintPolicy('https://default.example', { zapMintUrls }),
    maxReceiptsPerHour: 0,
    allowPrivateNetworks: false,
    log: logs.log,
  });
  const recorder = createObservationRecorder(db, {
    clock: clock.now,
    log: logs.log,
    zaps: { signReceipts, onReceiptsCreated: () => undefined },
  });
  return {
    record: (quotes: NewQuote | readonly NewQuote[], state: ObservedState) =>
      recorder.record(
        UNREACHABLE_MINT_URL,
        [quotes].flat().map(({ quoteId }) => ({ quoteId, state, source: 'poll' })),
      ),
  };
}

async function insertZapQuote(): Promise<NewQuote> {
  const quote = buildZapQuote();
  await insertQuotes(db, [quote]);
  return quote;
}

async function insertQuotesOfOneZapRequest(createdAtMs?: number): Promise<[NewQuote, NewQuote]> {
  const first = buildZapQuote(createdAtMs);
  const second = { ...buildZapQuote(), zapRequest: first.zapRequest };
  await insertQuotes(db, [first, second]);
  return [first, second];
}

function buildZapQuote(createdAtMs = Date.now()): NewQuote {
  const amountSat = 21;
  const amountMsat = amountSat * 1000;
  const { text } = createZapRequest({
    recipient: pubkey,
    amountMsat,
    comment: 'a "good" note 🥜',
    modifyTemplate: (template) => ({ ...template, created_at: toUnixSeconds(createdAtMs) }),
  });
  const request = createUnpayableInvoice(amountMsat);
  return buildUnpaidQuote(pubkey, { amountSat, request, zapRequest: text });
}

function listPayments() {
  return listPaidQuotes(db, pubkey, { sinceSeconds: null, limit: 50, offset: 0 }, clock.nowMs);
}

async function findRowId({ quoteId }: NewQuote): Promise<number> {
  return (await findQuotesByQuoteId(db, UNREACHABLE_MINT_URL, [quoteId]))[0]?.id ?? 0;
}

async function listRefusals(quote: NewQuote) {
  const events = await listQuoteEvents(db, await findRowId(quote));
  return events.flatMap((event) => (event.kind === 'receipt_refused' ? event.reason : []));
}

async function countReceipts(): Promise<number> {
  return (await db.selectFrom('zap_receipts').select('id').execute()).length;
}
