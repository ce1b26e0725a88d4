import { randomBytes } from 'node:crypto';
import type { Event } from 'nostr-tools';
import { nip57, verifyEvent } from 'nostr-tools';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type EventSigner, loadEventSigner } from '../../src/auth/event-signer.ts';
import type { ObservedState } from '../../src/domain/quote.ts';
import { GIVE_UP_AFTER_MS } from '../../src/domain/receipt-delivery.ts';
import { MintAnomalies } from '../../src/mint/mint-anomalies.ts';
import type { Database } from '../../src/store/database.ts';
import type { NewQuote } from '../../src/store/quote-store.ts';
import { Store } from '../../src/store/store.ts';
import { RecordObservations } from '../../src/usecases/record-observations.ts';
import { ZapReceipts } from '../../src/usecases/zap-receipts.ts';
import { createTestDatabase, hasServer, type TestDatabase } from '../helpers/database.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { CREATED_AT_MS, NOWHERE_MINT, unpaidQuote } from '../helpers/unpaid-quotes.ts';
import { TEST_ZAP_SECRET_KEY, zapInvoice, zapRequest } from '../helpers/zap-requests.ts';

/** When the receipt of a zap is made, and that it is, on either database. */

const OPERATOR_RELAY = 'wss://operator.example';

let testDatabase: TestDatabase;
let database: Database;
let otherDatabase: Database;
let store: Store;
let signer: EventSigner;
let clock: TestClock;
let log: LogCapture;
let pubkey: string;

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  database = await testDatabase.open();
  // Another process, where the database can have one.
  otherDatabase = hasServer ? await testDatabase.open() : database;
  store = new Store(database.db);
  signer = await loadEventSigner(TEST_ZAP_SECRET_KEY);
});

afterAll(async () => {
  if (hasServer) {
    await otherDatabase.close();
  }
  await database.close();
  await testDatabase.drop();
});

beforeEach(async () => {
  await database.db.deleteFrom('quotes').execute();
  clock = new TestClock(CREATED_AT_MS + 1_234);
  log = new LogCapture('warn');
  pubkey = randomBytes(32).toString('hex');
});

describe('a zap that is paid', () => {
  it('has a receipt that a wallet takes for what it is', async () => {
    const quote = await keepZap({ amountSat: 4_321 });
    await newProcess().record(quote, 'PAID');
    const receipt = await receiptOf(quote);
    expect(receipt).toMatchObject({
      pubkey: signer.pubkey,
      kind: 9735,
      content: '',
      created_at: Math.floor(clock.nowMs / 1000),
    });
    expect(verifyEvent(receipt)).toBe(true);
    expect(valueIn(receipt, 'p')).toBe(pubkey);
    expect(valueIn(receipt, 'P')).toBe(JSON.parse(quote.zapRequest ?? '').pubkey);
    expect(valueIn(receipt, 'bolt11')).toBe(quote.request);
    expect(valueIn(receipt, 'description')).toBe(quote.zapRequest);
    expect(nip57.validateZapRequest(valueIn(receipt, 'description'))).toBeNull();
    expect(nip57.getSatoshisAmountFromBolt11(valueIn(receipt, 'bolt11'))).toBe(4_321);
  });

  it('has a receipt of the second that its payment is listed with', async () => {
    const quotes = [await keepZap(), await keepZap()];
    await newProcess().record(quotes, 'PAID');
    const { quotes: listed } = await listOf(pubkey);
    expect(listed).toHaveLength(2);
    for (const { quoteId, paidAtMs } of listed) {
      const receipt = await receiptOf(quotes.find((each) => each.quoteId === quoteId));
      expect(receipt.created_at).toBe(Math.floor(paidAtMs / 1000));
    }
  });

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

  it('is due at each relay of the request and of the operator, once and for two days', async () => {
    const relays = ['wss://B.example/', 'wss://b.example', OPERATOR_RELAY, 'https://c.example'];
    const quote = await keepZap({ relays });
    await newProcess().record(quote, 'PAID');
    expect(await traced(quote)).toEqual({
      id: (await receiptOf(quote)).id,
      createdAtMs: clock.nowMs,
      deliveries: ['wss://b.example', OPERATOR_RELAY].map((relay) => ({
        relay,
        state: 'open',
        tries: 0,
        lastWord: null,
        lastTryAtMs: null,
        nextTryAtMs: clock.nowMs,
        giveUpAtMs: clock.nowMs + GIVE_UP_AFTER_MS,
        standing: null,
      })),
    });
  });

  it('has a receipt also where no relay can be used, and nobody is told of it', async () => {
    const quote = await keepZap({ relays: ['wss://127.0.0.1', 'nonsense'] });
    const process = newProcess({ relays: [] });
    await process.record(quote, 'PAID');
    expect(process.told).toBe(0);
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
    const [here, elsewhere] = [newProcess(), newProcess({ database: otherDatabase })];
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

  it('has no receipt where its payment could not be recorded, and both when it can', async () => {
    const quote = await keepZap();
    const failing = newProcess({
      store: failingAtCommit(store),
    });
    await expect(failing.record(quote, 'PAID')).rejects.toThrow('the power went');
    expect(await receiptCount()).toBe(0);
    expect((await listOf(pubkey)).total).toBe(0);
    expect(failing.told).toBe(0);

    const process = newProcess();
    await process.record(quote, 'PAID');
    expect(await receiptCount()).toBe(1);
    expect((await listOf(pubkey)).total).toBe(1);
    expect(process.told).toBe(1);
  });

  it('that was set back by hand is listed again, with the receipt that it has', async () => {
    const quote = await keepZap();
    const process = newProcess();
    await process.record(quote, 'PAID');
    const text = await receiptTextOf(quote);
    await database.db
      .updateTable('quotes')
      .set({ state: 'UNPAID', paid_at: null, paid_seq: null })
      .execute();
    clock.advance(60_000);
    await process.record(quote, 'PAID');
    expect((await listOf(pubkey)).quotes).toMatchObject([{ paidAtMs: clock.nowMs }]);
    expect(await receiptTextOf(quote)).toBe(text);
    expect(process.told).toBe(1);
  });
});

describe('a payment without a receipt', () => {
  it('is one that is no zap, and nobody is told of it', async () => {
    const quote = unpaidQuote(pubkey);
    await store.quotes.insert(quote);
    const process = newProcess();
    await process.record(quote, 'PAID');
    expect((await listOf(pubkey)).total).toBe(1);
    expect(await receiptCount()).toBe(0);
    expect(process.told).toBe(0);
  });

  it('is a zap that is paid after zaps were turned off', async () => {
    const quote = await keepZap();
    await newProcess({ hasZaps: false }).record(quote, 'PAID');
    expect((await listOf(pubkey)).quotes).toMatchObject([{ quoteId: quote.quoteId }]);
    await newProcess().record(quote, 'ISSUED');
    expect(await receiptCount()).toBe(0);
  });

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
      msg: 'the zap request of this quote cannot be read: it gets no receipt',
    });
    expect(log.lines[0]).not.toContain('a secret');
    expect(log.lines[0]).not.toContain(spoilt.quoteId);
  });

  it('is a zap whose receipt cannot be signed', async () => {
    const quote = await keepZap();
    const sign = () => {
      throw new Error('no signature today');
    };
    await newProcess({ signer: { ...signer, sign } }).record(quote, 'PAID');
    expect((await listOf(pubkey)).total).toBe(1);
    expect(await receiptCount()).toBe(0);
    expect(log.lines.map((line) => JSON.parse(line))).toMatchObject([
      { msg: 'a zap receipt could not be made', quotes: [await rowOf(quote)] },
    ]);
  });
});

describe('a batch of payments', () => {
  it('of several recipients has a receipt for each zap, and none for what is no zap', async () => {
    const other = randomBytes(32).toString('hex');
    const plain = unpaidQuote(other);
    await store.quotes.insert(plain);
    const zaps = [await keepZap(), await keepZap({ recipient: other }), await keepZap()];
    const process = newProcess();
    await process.record([plain, ...zaps], 'PAID');
    expect(await receiptCount()).toBe(3);
    for (const zap of zaps) {
      expect(valueIn(await receiptOf(zap), 'bolt11')).toBe(zap.request);
      expect(valueIn(await receiptOf(zap), 'p')).toBe(zap.pubkey);
    }
    expect(process.told).toBe(1);
  });

  it('is told of with the relays of its receipts, each once', async () => {
    const zaps = [
      await keepZap({ relays: ['wss://a.example', 'wss://b.example'] }),
      await keepZap({ relays: ['wss://b.example', 'wss://c.example'] }),
    ];
    const process = newProcess();
    await process.record(zaps, 'PAID');
    const named = ['a', 'b', 'c'].map((name) => `wss://${name}.example`);
    expect(process.told).toBe(1);
    expect(process.dueAt.toSorted()).toEqual([...named, OPERATOR_RELAY]);
  });

  it('has the receipts of all but the recipient whose rows contradict each other', async () => {
    const other = randomBytes(32).toString('hex');
    const process = newProcess();
    await process.record(await keepZap(), 'PAID');
    // As if the counter had been lost.
    await database.db.deleteFrom('users').where('pubkey', '=', pubkey).execute();
    const [spoilt, fine] = [await keepZap(), await keepZap({ recipient: other })];
    await process.record([spoilt, fine], 'PAID');
    expect(await traced(spoilt)).toBeNull();
    expect(valueIn(await receiptOf(fine), 'p')).toBe(other);
    expect(process.told).toBe(2);

    // As the operator mends it.
    await database.db.insertInto('users').values({ pubkey, paid_count: 1 }).execute();
    await process.record([spoilt, fine], 'PAID');
    expect(valueIn(await receiptOf(spoilt), 'p')).toBe(pubkey);
    expect(process.told).toBe(3);
  });

  it('of a hundred zaps has every receipt, and lets other work run between signatures', async () => {
    const zaps = await keepAlikeZaps(100);
    let sinceTurn = 0;
    let mostSinceTurn = 0;
    const counting: EventSigner = {
      pubkey: signer.pubkey,
      sign: (template) => {
        sinceTurn += 1;
        mostSinceTurn = Math.max(mostSinceTurn, sinceTurn);
        return signer.sign(template);
      },
    };
    let isOver = false;
    const turn = () => {
      sinceTurn = 0;
      if (!isOver) {
        setImmediate(turn);
      }
    };
    turn();
    await newProcess({ signer: counting }).record(zaps, 'PAID');
    isOver = true;
    expect(await receiptCount()).toBe(100);
    // Other work waits for some milliseconds, not for all hundred signatures.
    expect(mostSinceTurn).toBeLessThanOrEqual(20);
  });
});

describe('receipts that are kept', () => {
  it('are kept once for a quote and once for an event, each with its relays', async () => {
    const [first, second] = [await keepZap(), await keepZap()];
    const receipt = {
      quote: await rowOf(first),
      id: 'aa',
      event: '{}',
      relays: ['wss://a.example'],
      createdAtMs: clock.nowMs,
    };
    const ofQuote = { ...receipt, id: 'bb', relays: ['wss://b.example'] };
    const ofEvent = { ...receipt, quote: await rowOf(second), relays: ['wss://b.example'] };
    expect(await store.zapReceipts.add([receipt, ofQuote, ofEvent])).toEqual(['wss://a.example']);
    expect(await store.zapReceipts.add([receipt, ofEvent, ofQuote])).toEqual([]);
    expect(await store.zapReceipts.add([])).toEqual([]);
    expect(await receiptTextOf(first)).toBe('{}');
    expect((await traced(first))?.deliveries.map(({ relay }) => relay)).toEqual([
      'wss://a.example',
    ]);
    expect(await traced(second)).toBeNull();
  });

  it('are traced with what stands in the way of relays that have to get them', async () => {
    const relays = ['wss://a.example', 'wss://b.example', 'wss://c.example', 'wss://d.example'];
    const quote = await keepZap({ relays });
    await newProcess({ relays: [] }).record(quote, 'PAID');
    const restUntil = new Date(clock.nowMs + 60_000);
    const dead = { failures: 3, rest_until: restUntil, last_word: 'connection refused' };
    await database.db
      .insertInto('relays')
      .values([
        { url: 'wss://a.example', ...dead },
        { url: 'wss://b.example', ...dead },
        { url: 'wss://c.example', failures: 0, rest_until: null, last_word: null },
        { url: 'wss://d.example', failures: 0, rest_until: restUntil, last_word: 'rate-limited' },
      ])
      .execute();
    const tried = { tries: 2, last_word: 'blocked: spam', last_try_at: new Date(clock.nowMs) };
    await database.db
      .updateTable('zap_receipt_deliveries')
      .set({ state: 'refused', next_try_at: null, ...tried })
      .where('relay', '=', 'wss://b.example')
      .execute();
    const restUntilMs = restUntil.getTime();
    expect((await traced(quote))?.deliveries).toMatchObject([
      { state: 'open', standing: { failures: 3, restUntilMs, word: 'connection refused' } },
      {
        state: 'refused',
        tries: 2,
        lastWord: 'blocked: spam',
        lastTryAtMs: clock.nowMs,
        nextTryAtMs: null,
        standing: null,
      },
      { state: 'open', standing: null },
      { state: 'open', standing: { failures: 0, restUntilMs, word: 'rate-limited' } },
    ]);
  });
});

/** A process that records what mints say. */
function newProcess(
  given: {
    database?: Database;
    store?: Store;
    signer?: EventSigner;
    relays?: string[];
    hasZaps?: boolean;
  } = {},
) {
  const zapReceipts = new ZapReceipts({
    signer: given.signer ?? signer,
    relays: given.relays ?? [OPERATOR_RELAY],
    allowPrivateRelays: false,
    log: log.log,
  });
  const process = {
    /** How often it was told that there are receipts, and for which relays the last time. */
    told: 0,
    dueAt: [] as readonly string[],
    async record(quotes: NewQuote | readonly NewQuote[], state: ObservedState): Promise<void> {
      await recordObservations.record(
        NOWHERE_MINT,
        [quotes].flat().map(({ quoteId }) => ({ quoteId, state, source: 'poll' })),
      );
    },
  };
  const onReceipts = (relays: readonly string[]) => {
    process.told += 1;
    process.dueAt = relays;
  };
  const recordObservations = new RecordObservations({
    store: given.store ?? new Store((given.database ?? database).db),
    anomalies: new MintAnomalies(log.log),
    zaps: given.hasZaps === false ? null : { receipts: zapReceipts, onReceipts },
    clock: clock.now,
    log: log.log,
  });
  return process;
}

/** The store of a process that dies when all of a transaction is written and nothing of it committed. */
function failingAtCommit(whole: Store): Store {
  const transaction: Store['transaction'] = (work) =>
    whole.transaction(async (tx) => {
      await work(tx);
      throw new Error('the power went');
    });
  return Object.assign(Object.create(whole), { transaction });
}

interface ZapOptions {
  recipient?: string;
  amountSat?: number;
  relays?: string[];
}

async function keepZap(given: ZapOptions = {}): Promise<NewQuote> {
  const quote = newZap(given);
  await store.quotes.insert(quote);
  return quote;
}

/** Many, quickly: all with one zap request. */
async function keepAlikeZaps(count: number): Promise<NewQuote[]> {
  const { text } = zapRequest({ recipient: pubkey, amountMsat: 21_000 });
  const zaps = Array.from({ length: count }, () => unpaidQuote(pubkey, { zapRequest: text }));
  for (const zap of zaps) {
    await store.quotes.insert(zap);
  }
  return zaps;
}

function newZap({ recipient = pubkey, amountSat = 21, relays }: ZapOptions = {}): NewQuote {
  const amountMsat = amountSat * 1000;
  const comment = 'a "good" note 🥜';
  const { text } = zapRequest({ recipient, amountMsat, comment, ...(relays && { relays }) });
  return unpaidQuote(recipient, { amountSat, request: zapInvoice(amountMsat), zapRequest: text });
}

function listOf(recipient: string) {
  return store.quotes.listPaid(recipient, { sinceSeconds: null, limit: 50, offset: 0 });
}

async function rowOf({ quoteId }: NewQuote): Promise<number> {
  return (await store.watch.findHeld(NOWHERE_MINT, [quoteId]))[0]?.id ?? 0;
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

function valueIn(event: Event, name: string): string {
  return event.tags.find((tag) => tag[0] === name)?.[1] ?? '';
}
