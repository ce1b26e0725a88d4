import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { beforeEach, describe, expect, it } from 'vitest';
import { orderOfTurn } from '../../src/domain/check-turns.ts';
import type { QuoteObservation } from '../../src/domain/quote.ts';
import { type Log, openLog } from '../../src/log.ts';
import { MintConduct } from '../../src/mint/mint-conduct.ts';
import {
  decodeUpdates,
  QUOTE_CHANNEL,
  type QuoteUpdate,
} from '../../src/notifications/quote-channel.ts';
import type { Database } from '../../src/store/database.ts';
import type { NewQuote } from '../../src/store/quote-store.ts';
import { Store } from '../../src/store/store.ts';
import {
  type ObservationSource,
  RecordObservations,
} from '../../src/usecases/record-observations.ts';
import { ChannelEar } from '../helpers/channel-ear.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { CREATED_AT_MS, dueAt, NOWHERE_MINT, unpaidQuote } from '../helpers/unpaid-quotes.ts';
import { useDatabase } from '../helpers/use-database.ts';

/** What becomes of a mint's word on quotes: on the embedded database and on a server. */

const HOUR_MS = 3_600_000;

let database: Database;
let store: Store;
let clock: TestClock;
let recordObservations: RecordObservations;
let pubkey: string;

useDatabase((opened) => {
  database = opened;
  store = new Store(opened.db);
});

beforeEach(() => {
  clock = new TestClock(CREATED_AT_MS + 1_000);
  const log = openLog('silent');
  const conduct = new MintConduct(log);
  recordObservations = new RecordObservations({
    store,
    conduct,
    zaps: null,
    isOnServer: true,
    clock: clock.now,
    log,
  });
  pubkey = newPubkey();
});

describe('a payment', () => {
  it('that socket and poll report many times at once is there once and told once', async () => {
    const quote = await keep();
    const ear = await openEar();
    const sources = Array.from({ length: 24 }, (_, index) => (index % 2 ? 'socket' : 'poll'));
    await Promise.all(sources.map((source) => record([observe(quote, 'PAID')], source)));
    expect(await list()).toEqual([
      { quoteId: quote.quoteId, state: 'PAID', paidAtMs: clock.nowMs },
    ]);
    expect(await paidCount()).toBe(1);
    expect(await ear()).toEqual([{ pubkey, quoteId: quote.quoteId }]);
  });

  it('may be learnt of when its quote is minted already', async () => {
    const quote = await keep();
    expect(await record([observe(quote, 'ISSUED')])).toEqual([quote.quoteId]);
    expect(await list()).toMatchObject([{ quoteId: quote.quoteId, state: 'ISSUED' }]);
  });

  it('that is collected needs no watch, as the socket of each process learns that tells of it', async () => {
    const quote = await keep();
    await record([observe(quote, 'PAID')], 'socket');
    expect(await record([observe(quote, 'PAID')], 'socket')).toEqual([]);
    await record([observe(quote, 'ISSUED')], 'poll');
    expect(await record([observe(quote, 'ISSUED')], 'socket')).toEqual([quote.quoteId]);
  });

  it('is not taken back by a mint that says unpaid, late or again', async () => {
    const quote = await keep();
    await record([observe(quote, 'PAID')]);
    const ear = await openEar();
    clock.advance(30 * 24 * HOUR_MS);
    await record([observe(quote, 'UNPAID')], 'socket');
    await record([observe(quote, 'UNPAID')], 'poll');
    expect(await list()).toMatchObject([{ quoteId: quote.quoteId, state: 'PAID' }]);
    await record([observe(quote, 'ISSUED')], 'poll');
    for (const state of ['UNPAID', 'PAID', 'INFLIGHT'] as const) {
      await record([observe(quote, state)], 'poll');
    }
    expect(await list()).toMatchObject([{ quoteId: quote.quoteId, state: 'ISSUED' }]);
    expect(await ear()).toEqual([{ pubkey, quoteId: quote.quoteId }]);
  });

  it('goes to and fro while its mint signs, is told each time and keeps its place', async () => {
    const quote = await keep();
    const ear = await openEar();
    const paidAtMs = clock.nowMs;
    for (const state of ['INFLIGHT', 'PAID', 'INFLIGHT', 'ISSUED'] as const) {
      await record([observe(quote, state)]);
      expect(await list()).toEqual([{ quoteId: quote.quoteId, state, paidAtMs }]);
      expect(await ear()).toEqual([{ pubkey, quoteId: quote.quoteId }]);
      clock.advance(2_000);
    }
    expect(await paidCount()).toBe(1);
  });

  it('has a history of the last twenty states, however often its mint goes to and fro', async () => {
    const quote = await keep();
    await record([observe(quote, 'PAID')], 'socket');
    for (let turn = 0; turn < 15; turn += 1) {
      clock.advance(1_000);
      await record([observe(quote, 'INFLIGHT')]);
      await record([observe(quote, 'PAID')]);
    }
    await record([observe(quote, 'ISSUED')]);
    const history = await historyOf(quote);
    expect(history).toHaveLength(20);
    expect(history.at(-1)).toEqual({
      atMs: clock.nowMs,
      kind: 'state',
      from: 'PAID',
      to: 'ISSUED',
      source: 'poll',
    });
  });

  it('is believed of the amount and invoice that were issued, and of no other', async () => {
    const quote = await keep({ amountSat: 21 });
    await record([{ ...observe(quote, 'PAID'), amountSat: 22 }]);
    await record([{ ...observe(quote, 'PAID'), request: `${quote.request}x` }]);
    expect(await list()).toEqual([]);
    await record([
      { ...observe(quote, 'PAID'), amountSat: 21, request: quote.request.toUpperCase() },
    ]);
    expect(await list()).toMatchObject([{ quoteId: quote.quoteId }]);
  });

  it('is one of the mint that reports it', async () => {
    const quote = await keep();
    await recordObservations.record(
      'https://other.example',
      [observe(quote, 'PAID')],
      'poll',
      () => false,
    );
    await record([{ quoteId: 'of nobody here', state: 'PAID' }]);
    expect(await list()).toEqual([]);
    expect(await store.users.find(pubkey)).toBeNull();
  });
});

describe('an unpaid quote', () => {
  const GRACE_MS = 24 * HOUR_MS;

  it('ends by the second answer to a poll, a day after its expiry, and nobody is told', async () => {
    const quote = await keep();
    const ear = await openEar();
    for (const nowMs of [quote.expiresAtMs + GRACE_MS - 1, quote.expiresAtMs + GRACE_MS]) {
      clock.nowMs = nowMs;
      expect(await record([observe(quote, 'UNPAID')], 'poll')).toEqual([]);
    }
    clock.advance(HOUR_MS - 1);
    expect(await record([observe(quote, 'UNPAID')], 'socket')).toEqual([]);
    clock.advance(1);
    expect(await record([observe(quote, 'UNPAID')], 'socket')).toEqual([]);
    expect(await stateOf(quote)).toBe('UNPAID');

    expect(await record([observe(quote, 'UNPAID')], 'poll')).toEqual([quote.quoteId]);
    expect(await stateOf(quote)).toBe('EXPIRED');
    expect(await ear()).toEqual([]);
    expect(await list()).toEqual([]);
  });

  it('does not end because the clock jumped ahead for a while', async () => {
    const quote = await keep();
    await record([observe(quote, 'UNPAID')], 'poll');
    const rightMs = clock.nowMs;
    clock.advance(400 * GRACE_MS);
    await record([observe(quote, 'UNPAID')], 'poll');
    clock.nowMs = rightMs + 1;
    await store.watch.pullInFromFuture(NOWHERE_MINT, clock.nowMs);
    expect(await isDue(quote)).toBe(true);
    await record([observe(quote, 'UNPAID')], 'poll');
    expect(await stateOf(quote)).toBe('UNPAID');
    await record([observe(quote, 'PAID')], 'poll');
    expect(await list()).toMatchObject([{ quoteId: quote.quoteId, paidAtMs: clock.nowMs }]);
  });

  it('can still be paid after its end', async () => {
    const quote = await keep();
    for (const nowMs of [quote.expiresAtMs + GRACE_MS, quote.expiresAtMs + GRACE_MS + HOUR_MS]) {
      clock.nowMs = nowMs;
      await record([observe(quote, 'UNPAID')], 'poll');
    }
    expect(await stateOf(quote)).toBe('EXPIRED');
    const ear = await openEar();
    clock.advance(HOUR_MS);
    expect(await record([observe(quote, 'PAID')], 'socket')).toEqual([]);
    expect(await list()).toEqual([
      { quoteId: quote.quoteId, state: 'PAID', paidAtMs: clock.nowMs },
    ]);
    expect(await ear()).toEqual([{ pubkey, quoteId: quote.quoteId }]);
    expect(await store.watch.listWatched(NOWHERE_MINT, 10)).toContain(quote.quoteId);
  });

  it('is asked about again by what a poll says, and not by what a socket does', async () => {
    const quote = await keep({ nextCheck: dueAt(clock.nowMs) });
    await record([observe(quote, 'UNPAID')], 'socket');
    expect(await isDue(quote)).toBe(true);
    await record([observe(quote, 'UNPAID')], 'poll');
    expect(await isDue(quote)).toBe(false);
    clock.advance(4_000);
    expect(await isDue(quote)).toBe(true);
  });

  it('is asked about less often where a socket covers it', async () => {
    const quote = await keep({ nextCheck: dueAt(clock.nowMs) });
    await recordObservations.record(NOWHERE_MINT, [observe(quote, 'UNPAID')], 'poll', () => true);
    clock.advance(19_999);
    expect(await isDue(quote)).toBe(false);
    clock.advance(1);
    expect(await isDue(quote)).toBe(true);
  });
});

describe('a batch', () => {
  it('gives each recipient places without a gap, and tells of every quote once', async () => {
    const other = newPubkey();
    const quotes = await keepMany([pubkey, other, pubkey, pubkey, other]);
    const ear = await openEar();
    await record(quotes.map((quote) => observe(quote, 'PAID')));
    const later = await keepMany([pubkey]);
    clock.advance(60_000);
    await record(later.map((quote) => observe(quote, 'PAID')));
    expect(await placesOf(pubkey)).toEqual([1, 2, 3, 4]);
    expect(await placesOf(other)).toEqual([1, 2]);
    expect(await paidCount()).toBe(4);
    const told = (await ear()).map((update) => update.quoteId);
    expect(told.toSorted()).toEqual([...quotes, ...later].map((quote) => quote.quoteId).toSorted());
  });

  it('and are more than go into one transaction have their places without a gap, and are told once', async () => {
    const recipients = Array.from({ length: 3 }, newPubkey);
    const quotes = await keepMany(
      Array.from({ length: 260 }, (_, index) => recipients[index % 3] ?? ''),
    );
    const ear = await openEar();
    await record(quotes.map((quote) => observe(quote, 'PAID')));
    for (const recipient of recipients) {
      const { rows } = await sql<{ places: number[]; times: number }>`
        select json_agg(paid_seq order by paid_seq) as places, count(distinct paid_at)::int as times
        from quotes where pubkey = ${recipient}`.execute(database.db);
      const paid = quotes.filter((quote) => quote.pubkey === recipient).length;
      const places = Array.from({ length: paid }, (_, place) => place + 1);
      expect(rows[0]).toEqual({ places, times: paid });
    }
    const told = (await ear()).map(({ quoteId }) => quoteId);
    expect(told.toSorted()).toEqual(quotes.map(({ quoteId }) => quoteId).toSorted());
  });

  it('of a thousand payments is told in few payloads, each within what PostgreSQL takes', async () => {
    // As long as ids may be: 256 characters, of which JSON doubles the quotation marks.
    const quotes = Array.from({ length: 1_000 }, (_, index) =>
      unpaidQuote(newPubkey(), { quoteId: `"${index}`.padEnd(256, 'x') }),
    );
    for (const quote of quotes) {
      await store.quotes.insert(quote);
    }
    const ear = await ChannelEar.open(database, QUOTE_CHANNEL);
    await record(quotes.map((quote) => observe(quote, 'PAID')));
    const payloads = await ear.heard();
    expect(Math.max(...payloads.map((payload) => Buffer.byteLength(payload)))).toBeLessThan(8_000);
    expect(payloads.length).toBeLessThan(50);
    expect(byQuoteId(payloads.flatMap(decodeUpdates).map(withoutRow))).toEqual(
      byQuoteId(quotes.map((quote) => ({ pubkey: quote.pubkey, quoteId: quote.quoteId }))),
    );
  });

  it('may meet others with the same quotes in any order: none waits for ever, none counts twice', async () => {
    const recipients = [pubkey, newPubkey(), newPubkey(), newPubkey()];
    const quotes = await keepMany(Array.from({ length: 10 }, () => recipients).flat());
    const ear = await openEar();
    const rotated = (by: number) => [...quotes.slice(by), ...quotes.slice(0, by)];
    const batches = [rotated(0), rotated(0).reverse(), rotated(13), rotated(29).reverse()];
    const answers = [...batches, ...batches].map((batch, index) =>
      record(
        batch.map((quote) => observe(quote, index < batches.length ? 'PAID' : 'ISSUED')),
        index % 2 === 0 ? 'poll' : 'socket',
      ),
    );
    await Promise.all(answers);
    for (const recipient of recipients) {
      expect(await placesOf(recipient)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    }
    // Whoever says ISSUED first leaves nothing to say to those who come with PAID.
    const told = await ear();
    expect(told.length).toBeGreaterThanOrEqual(quotes.length);
    expect(told.length).toBeLessThanOrEqual(2 * quotes.length);
    expect((await list()).map((quote) => quote.state)).toEqual(Array(10).fill('ISSUED'));
  });

  it('may come with others of the same recipients at the same moment: places stay dense', async () => {
    const other = newPubkey();
    const pairs = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        keepMany(index % 2 === 0 ? [pubkey, other] : [other, pubkey]),
      ),
    );
    await Promise.all(pairs.map((pair) => record(pair.map((quote) => observe(quote, 'PAID')))));
    const places = Array.from({ length: 20 }, (_, index) => index + 1);
    expect(await placesOf(pubkey)).toEqual(places);
    expect(await placesOf(other)).toEqual(places);
  });

  it('of nothing changes nothing', async () => {
    expect(await record([])).toEqual([]);
  });

  it('with a recipient whose counter was lost shows the payments of all others', async () => {
    const other = newPubkey();
    const [before] = await keepMany([pubkey]);
    await record([observe(before as NewQuote, 'PAID')]);
    await database.db.deleteFrom('users').where('pubkey', '=', pubkey).execute();
    const [spoilt, fine] = (await keepMany([pubkey, other])) as [NewQuote, NewQuote];
    const ear = await openEar();

    await record([observe(spoilt, 'PAID'), observe(fine, 'ISSUED')]);
    expect(await list(other)).toMatchObject([{ quoteId: fine.quoteId, state: 'ISSUED' }]);
    expect(await ear()).toEqual([{ pubkey: other, quoteId: fine.quoteId }]);
    expect(await stateOf(spoilt)).toBe('UNPAID');
  });

  it('tells the operator which quote the database refuses, and puts it off for a minute', async () => {
    const capture = new LogCapture('error');
    const { log } = capture;
    const conduct = new MintConduct(log);
    recordObservations = new RecordObservations({
      store,
      conduct,
      zaps: null,
      isOnServer: true,
      clock: clock.now,
      log,
    });
    const [before, spoilt] = (await keepMany([pubkey, pubkey])) as [NewQuote, NewQuote];
    await record([observe(before, 'PAID')]);
    await database.db.deleteFrom('users').where('pubkey', '=', pubkey).execute();

    expect(await record([observe(spoilt, 'PAID')])).toEqual([]);
    const [held] = await store.watch.findHeld(NOWHERE_MINT, [spoilt.quoteId]);
    expect(capture.lines).toHaveLength(1);
    expect(JSON.parse(capture.lines[0] ?? '')).toMatchObject({
      mintUrl: NOWHERE_MINT,
      quotes: [held?.id],
      err: { message: expect.stringContaining('quotes_by_payment') },
    });
    for (const secret of [spoilt.quoteId, spoilt.request, spoilt.verifyToken]) {
      expect(capture.lines[0]).not.toContain(secret);
    }
    expect(await isDue(spoilt)).toBe(false);
    clock.advance(60_000);
    expect(await isDue(spoilt)).toBe(true);

    // As the operator mends it.
    await database.db.insertInto('users').values({ pubkey, paid_count: 1 }).execute();
    await record([observe(spoilt, 'PAID')]);
    expect(await placesOf(pubkey)).toEqual([1, 2]);
  });
});

describe('what somebody else recorded in between', () => {
  it('is recorded once, and what is left has its places without a gap', async () => {
    const quotes = (await keepMany([pubkey, pubkey, pubkey])) as [NewQuote, NewQuote, NewQuote];
    const theirs = quotes[1];
    const ear = await openEar();
    const capture = new LogCapture('info');
    const overtaken = recorderOvertakenBy(() => record([observe(theirs, 'PAID')], 'socket'), {
      log: capture.log,
    });
    const { news } = await overtaken.record(
      NOWHERE_MINT,
      quotes.map((quote) => observe(quote, 'PAID')),
      'poll',
      () => false,
    );
    expect(news.map(({ quoteId }) => quoteId).toSorted()).toEqual(
      [quotes[0].quoteId, quotes[2].quoteId].toSorted(),
    );
    expect(await placesOf(pubkey)).toEqual([1, 2, 3]);
    expect(await paidCount()).toBe(3);
    expect((await list()).at(-1)).toMatchObject({ quoteId: theirs.quoteId });
    expect(byQuoteId(await ear())).toEqual(
      byQuoteId(quotes.map(({ quoteId }) => ({ pubkey, quoteId }))),
    );
    expect(capture.lines.map((line) => JSON.parse(line).milestone)).toEqual(['paid', 'paid']);
  });

  it('is not taken back by what was said before', async () => {
    const quote = await keep();
    await record([observe(quote, 'PAID')], 'socket');
    const saidAtMs = clock.nowMs;
    clock.advance(1);
    const overtaken = recorderOvertakenBy(() => record([observe(quote, 'PAID')], 'poll'));
    const before = await historyOf(quote);
    const said = [{ ...observe(quote, 'INFLIGHT'), saidAtMs }];
    await overtaken.record(NOWHERE_MINT, said, 'socket', () => false);
    expect(await list()).toMatchObject([{ state: 'PAID' }]);
    expect(await historyOf(quote)).toEqual(before);
  });

  it.each([
    ['a first payment', 'UNPAID', 'PAID'],
    ['a collection', 'PAID', 'ISSUED'],
  ] as const)(
    'is no obstacle to %s where it is that nothing had happened',
    async (_, before, now) => {
      const quote = await keep();
      await record([observe(quote, before)], 'socket');
      const overtaken = recorderOvertakenBy(() => record([observe(quote, before)], 'poll'), {
        times: Number.POSITIVE_INFINITY,
      });
      await overtaken.record(NOWHERE_MINT, [observe(quote, now)], 'socket', () => false);
      expect(await list()).toMatchObject([{ state: now }]);
    },
  );

  it('again and again leaves a payment as it was, and the same can be said later', async () => {
    const quote = await keep();
    await record([observe(quote, 'PAID')], 'socket');
    const overtaken = recorderOvertakenBy(() => record([observe(quote, 'PAID')], 'poll'), {
      times: Number.POSITIVE_INFINITY,
    });
    const said = [observe(quote, 'INFLIGHT')];
    await expect(overtaken.record(NOWHERE_MINT, said, 'socket', () => false)).rejects.toThrow(
      'somebody else was first',
    );
    expect(await list()).toMatchObject([{ state: 'PAID' }]);
    await record(said, 'socket');
    expect(await list()).toMatchObject([{ state: 'INFLIGHT' }]);
  });

  it('is compared as exactly as times are read: one that was typed in by hand is no obstacle', async () => {
    const quote = await keep();
    await record([observe(quote, 'PAID')]);
    await sql`
      update quotes set checked_at = '2026-01-02 00:00:00.123987Z'
      where quote_id = ${quote.quoteId}`.execute(database.db);
    await record([observe(quote, 'INFLIGHT')]);
    expect(await list()).toMatchObject([{ state: 'INFLIGHT' }]);
  });

  /** One who is kept busy between reading what is held and the transaction, a number of times. */
  function recorderOvertakenBy(
    theirs: () => Promise<unknown>,
    { times = 1, log = openLog('silent') }: { times?: number; log?: Log } = {},
  ): RecordObservations {
    let left = times;
    const transaction: Store['transaction'] = async (work) => {
      if (left > 0) {
        left -= 1;
        clock.advance(1);
        await theirs();
      }
      return store.transaction(work);
    };
    return new RecordObservations({
      store: Object.assign(Object.create(store), { transaction }),
      conduct: new MintConduct(log),
      zaps: null,
      isOnServer: true,
      clock: clock.now,
      log,
    });
  }
});

describe('the time of a payment', () => {
  it('is the moment at which it was recorded, and a second after the one before', async () => {
    const startMs = clock.nowMs;
    expect(await payOne()).toBe(startMs);
    expect(await payOne()).toBe(startMs + 1_000);
    clock.advance(1_500);
    expect(await payOne()).toBe(startMs + 2_000);
    clock.advance(60_000);
    expect(await payOne()).toBe(startMs + 61_500);
  });

  it('never runs ahead of the clock by more than five seconds, and still never repeats', async () => {
    const quotes = await keepMany(Array(9).fill(pubkey));
    await record(quotes.map((quote) => observe(quote, 'PAID')));
    const ahead = (await list()).map((quote) => quote.paidAtMs - clock.nowMs).reverse();
    expect(ahead).toEqual([0, 1_000, 2_000, 3_000, 4_000, 5_000, 5_001, 5_002, 5_003]);
  });

  it('does not go back when the clock does', async () => {
    const startMs = clock.nowMs;
    await payOne();
    clock.advance(-HOUR_MS);
    expect(await payOne()).toBe(startMs + 1);
    expect((await list()).map((quote) => quote.paidAtMs)).toEqual([startMs + 1, startMs]);
  });

  it('of one recipient does not depend on another', async () => {
    const quotes = await keepMany([pubkey, newPubkey(), newPubkey()]);
    await record(quotes.map((quote) => observe(quote, 'PAID')));
    for (const quote of quotes) {
      const [listed] = await list(quote.pubkey);
      expect(listed?.paidAtMs).toBe(clock.nowMs);
    }
  });

  async function payOne(): Promise<number | undefined> {
    const quote = await keep();
    await record([observe(quote, 'PAID')]);
    return (await list())[0]?.paidAtMs;
  }
});

describe('the history of a quote', () => {
  it('tells what its mint said, by which way, and what was not believed', async () => {
    const quote = await keep();
    const madeMs = clock.nowMs;
    await record([{ ...observe(quote, 'PAID'), amountSat: 22 }], 'poll');
    clock.advance(1_000);
    await record([observe(quote, 'PAID')], 'socket');
    await record([observe(quote, 'PAID')], 'poll');
    await record([observe(quote, 'UNPAID')], 'poll');
    clock.advance(1_000);
    await record([observe(quote, 'ISSUED')], 'poll');
    expect(await historyOf(quote)).toEqual([
      {
        atMs: madeMs,
        kind: 'disbelieved',
        reason: 'another_amount_or_invoice',
        said: 'PAID',
      },
      { atMs: madeMs + 1_000, kind: 'state', from: 'UNPAID', to: 'PAID', source: 'socket' },
      { atMs: madeMs + 1_000, kind: 'disbelieved', reason: 'backwards', said: 'UNPAID' },
      { atMs: madeMs + 2_000, kind: 'state', from: 'PAID', to: 'ISSUED', source: 'poll' },
    ]);
  });

  it.each([
    ['UNPAID', 'PAID'],
    ['INFLIGHT', 'PAID'],
    ['PAID', 'ISSUED'],
  ] as const)('has no %s that its mint said before its %s was recorded', async (said, recorded) => {
    const quote = await keep();
    const saidAtMs = clock.nowMs;
    clock.advance(1);
    await record([observe(quote, recorded)], 'socket');
    const before = await historyOf(quote);
    await record([{ ...observe(quote, said), saidAtMs }], 'poll');
    expect(await historyOf(quote)).toEqual(before);
    expect(await list()).toMatchObject([{ state: recorded }]);
  });

  it('has what its mint said before something that was not behind it', async () => {
    const quote = await keep();
    const saidAtMs = clock.nowMs;
    clock.advance(1);
    await record([observe(quote, 'INFLIGHT')], 'poll');
    await record([{ ...observe(quote, 'PAID'), saidAtMs }], 'socket');
    expect(await list()).toMatchObject([{ state: 'PAID' }]);
  });
});

/** @returns ids of quotes that need no more watching */
async function record(
  observations: QuoteObservation[],
  source: ObservationSource = 'poll',
): Promise<string[]> {
  const { finished } = await recordObservations.record(
    NOWHERE_MINT,
    observations,
    source,
    () => false,
  );
  return finished;
}

function observe(quote: NewQuote, state: QuoteObservation['state']): QuoteObservation {
  return { quoteId: quote.quoteId, state };
}

it('a payment that was brought over without its invoice goes on as its mint says', async () => {
  const quote = await keep({ request: '' });
  const told = { quoteId: quote.quoteId, amountSat: quote.amountSat, request: 'lnbc210n1invoice' };
  await record([{ ...told, state: 'INFLIGHT' }]);
  await record([{ ...told, state: 'PAID' }]);
  expect(await list()).toMatchObject([{ quoteId: quote.quoteId, state: 'PAID' }]);
});

async function keep(given: Partial<NewQuote> = {}): Promise<NewQuote> {
  const quote = unpaidQuote(pubkey, given);
  await store.quotes.insert(quote);
  return quote;
}

/** One quote for each, in their order. */
async function keepMany(recipients: readonly string[]): Promise<NewQuote[]> {
  const quotes = recipients.map((recipient) => unpaidQuote(recipient));
  for (const quote of quotes) {
    await store.quotes.insert(quote);
  }
  return quotes;
}

/** The newest payments of a recipient, the newest first. */
async function list(of: string = pubkey) {
  const { quotes } = await store.quotes.listPaid(of, { sinceSeconds: null, limit: 50, offset: 0 });
  return quotes.map(({ quoteId, state, paidAtMs }) => ({ quoteId, state, paidAtMs }));
}

async function placesOf(recipient: string): Promise<(number | null)[]> {
  const rows = await database.db
    .selectFrom('quotes')
    .select('paid_seq')
    .where('pubkey', '=', recipient)
    .orderBy('paid_seq')
    .execute();
  return rows.map((row) => row.paid_seq);
}

async function paidCount(): Promise<number | undefined> {
  return (await store.users.lockPaymentCounters([pubkey]))[0]?.paidCount;
}

async function stateOf(quote: NewQuote) {
  return (await store.quotes.findByVerifyToken(quote.verifyToken))?.state;
}

async function historyOf(quote: NewQuote) {
  const [held] = await store.watch.findHeld(NOWHERE_MINT, [quote.quoteId]);
  return store.events.list(held?.id ?? 0);
}

async function isDue(quote: NewQuote): Promise<boolean> {
  const due = await store.watch.listDue(NOWHERE_MINT, clock.nowMs, 10_000, orderOfTurn(0));
  return due.some((each) => each.quoteId === quote.quoteId);
}

/** @returns gives the updates that were told since the last call */
async function openEar(): Promise<() => Promise<Omit<QuoteUpdate, 'id'>[]>> {
  const ear = await ChannelEar.open(database, QUOTE_CHANNEL);
  return async () => (await ear.heard()).flatMap(decodeUpdates).map(withoutRow);
}

function withoutRow({ pubkey, quoteId }: QuoteUpdate): Omit<QuoteUpdate, 'id'> {
  return { pubkey, quoteId };
}

function byQuoteId<Update extends { quoteId: string }>(updates: Update[]): Update[] {
  return updates.toSorted((a, b) => (a.quoteId < b.quoteId ? -1 : 1));
}

function newPubkey(): string {
  return randomBytes(32).toString('hex');
}
