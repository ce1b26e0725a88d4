import fc from 'fast-check';
import { beforeAll, expect, it, vi } from 'vitest';
import type { Db } from '../../src/database/transaction.ts';
import { insertQuotes } from '../../src/quotes/quote-store.ts';
import { findQuotesById } from '../../src/quotes/watched-quote-store.ts';
import {
  buildUnpaidQuote,
  createObservationRecorder,
  insertPaidQuotes,
  UNREACHABLE_MINT_URL,
} from '../helpers/recipients/quote-fixtures.ts';
import { requestJson } from '../helpers/recipients/recipient-client.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

/** A fixed seed, so that every test run generates the same sequences of steps. */
const SEED = 20_260_807;
/** Sequences per test. Each makes some hundred requests. */
const SEQUENCES = 20;
vi.setConfig({ testTimeout: 180_000 });

const PAGE_SIZE = 50;

/** After this time without payments, every payment is listed. */
const MAX_LISTING_DELAY_MS = 1_000;

const clock = new TestClock();
const environment = useTestEnvironment({ overrides: { clock: clock.now } });
let db: Db;

beforeAll(async () => {
  db = environment.database.db;
});

it('returns every payment of a burst to every wallet, in any sequence of payments and page requests', async () => {
  const strategies = Object.keys(READ_STRATEGIES) as ReadStrategy[];
  const count = fc.integer({ min: 1, max: 40 });
  const step: fc.Arbitrary<Step> = fc.oneof(
    fc.record({ kind: fc.constant('pay' as const), paymentCount: count }),
    fc.record({ kind: fc.constant('wait' as const), halfSeconds: count }),
    fc.record({
      kind: fc.constant('read' as const),
      readerIndex: fc.nat({ max: strategies.length - 1 }),
      paymentCount: fc.oneof(fc.constant(0), count),
    }),
  );
  const earlier = fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 170 }));
  await fc.assert(
    fc.asyncProperty(earlier, fc.array(step, { maxLength: 40 }), async (earlierCount, steps) => {
      const wallet = environment.newWallet();
      const { body } = await wallet.get('/api/v2/auth/nip98');
      const payer = new Payer(wallet.pubkey);
      await payer.insertEarlierPayments(earlierCount);
      const readers = strategies.map((strategy) => new Reader(strategy, body.data.token, payer));
      for (const each of steps) {
        if (each.kind === 'wait') {
          clock.advance(each.halfSeconds * 500);
        } else {
          await Promise.all([
            each.kind === 'read' ? readers[each.readerIndex]?.read() : null,
            payer.pay(each.paymentCount),
          ]);
        }
      }
      clock.advance(MAX_LISTING_DELAY_MS);
      for (const reader of readers) {
        await reader.finish();
        expect([...reader.quoteIds].sort(), reader.strategy).toEqual(payer.listedQuoteIds().sort());
      }
      expect((await wallet.listPaidQuotes()).map((quote) => quote['quoteId'])).toEqual(
        payer.paidQuoteIds.toReversed(),
      );
    }),
    { seed: SEED, numRuns: SEQUENCES },
  );
});

type ReadStrategy = keyof typeof READ_STRATEGIES;

/** How wallets read the list, in the code of npubcash-sdk, cashu.me and coco. */
const READ_STRATEGIES = {
  'offset by 50': { sinceFor: () => null, nextOffset: byFifty, skips: () => false },
  'offset by page': { sinceFor: () => null, nextOffset: byPageLength, skips: () => false },
  'since the last': {
    sinceFor: (lastPaidAt: number) => lastPaidAt,
    nextOffset: byFifty,
    // The wallet ignores quotes that are not later than the last one.
    skips: (paidAt: number, lastPaidAt: number) => paidAt <= lastPaidAt,
  },
  'since before the last': {
    sinceFor: (lastPaidAt: number) => Math.max(0, lastPaidAt - 1),
    nextOffset: byPageLength,
    skips: () => false,
  },
} as const;

/** npubcash-sdk advances the offset by the page size until it reaches the total. */
function byFifty(offset: number, _pageLength: number, total: number): number | null {
  return offset + PAGE_SIZE >= total ? null : offset + PAGE_SIZE;
}

/** cashu.me advances the offset by the length of the page until a page is empty. */
function byPageLength(offset: number, pageLength: number): number | null {
  return pageLength === 0 ? null : offset + pageLength;
}

type Step =
  | { kind: 'pay'; paymentCount: number }
  | { kind: 'wait'; halfSeconds: number }
  /** Reads a page, and makes the payments concurrently. */
  | { kind: 'read'; readerIndex: number; paymentCount: number };

/** Makes payments to a recipient. */
class Payer {
  /** In the order of the payments. */
  readonly #payments: { quoteId: string; paidAtMs: number }[] = [];
  readonly #pubkey: string;
  readonly #recorder = createObservationRecorder(db, { clock: clock.now });

  constructor(pubkey: string) {
    this.#pubkey = pubkey;
  }

  get paidQuoteIds(): string[] {
    return this.#payments.map(({ quoteId }) => quoteId);
  }

  /** Returns the payments that must be in the list now. */
  listedQuoteIds(): string[] {
    return this.#payments
      .filter(({ paidAtMs }) => paidAtMs <= clock.nowMs)
      .map(({ quoteId }) => quoteId);
  }

  async insertEarlierPayments(count: number): Promise<void> {
    const payments = Array.from({ length: count }, (_, index) => ({
      paidAtMs: 1000 * (index + 1),
    }));
    if (count > 0) {
      const quoteIds = await insertPaidQuotes(environment.database, this.#pubkey, payments);
      this.#payments.push(
        ...payments.map((payment, index) => ({ ...payment, quoteId: quoteIds[index] ?? '' })),
      );
    }
  }

  /** Makes payments at the same time. */
  async pay(count: number): Promise<void> {
    if (count === 0) {
      return;
    }
    const quotes = Array.from({ length: count }, () =>
      buildUnpaidQuote(this.#pubkey, { createdAtMs: clock.nowMs }),
    );
    await insertQuotes(db, quotes);
    // In this state, quotes are not watched, so the service sends no polls.
    const issued = { state: 'ISSUED', source: 'poll' } as const;
    await this.#recorder.record(
      UNREACHABLE_MINT_URL,
      quotes.map(({ quoteId }) => ({ quoteId, ...issued })),
    );
    const rows = await findQuotesById(
      db,
      UNREACHABLE_MINT_URL,
      quotes.map((quote) => quote.quoteId),
    );
    this.#payments.push(
      ...rows
        .map(({ quoteId, paidAtMs }) => ({ quoteId, paidAtMs: paidAtMs ?? 0 }))
        .sort((a, b) => a.paidAtMs - b.paidAtMs),
    );
  }
}

/** A wallet that reads the list page by page, and starts again after the last page. */
class Reader {
  readonly strategy: ReadStrategy;
  /** The quotes that the wallet received. */
  readonly quoteIds = new Set<string>();
  readonly #jwt: string;
  readonly #payer: Payer;
  #lastPaidAt = 0;
  /** A pass over all pages. */
  #pass: {
    since: number | null;
    offset: number;
    newestPaidAt: number;
    listedBeforePass: string[];
  } | null = null;

  constructor(strategy: ReadStrategy, jwt: string, payer: Payer) {
    this.strategy = strategy;
    this.#jwt = jwt;
    this.#payer = payer;
  }

  /** Reads a page; a wallet with a watermark reads all, because another reader may list more than a page (ADR 40). */
  async read(): Promise<void> {
    do {
      await this.readPage();
    } while (this.strategy === 'since the last' && this.#pass !== null);
  }

  /** Requests the next page, or the first page of a new pass. Checks each completed pass. */
  async readPage(): Promise<void> {
    const { sinceFor, nextOffset, skips } = READ_STRATEGIES[this.strategy];
    this.#pass ??= {
      since: sinceFor(this.#lastPaidAt),
      offset: 0,
      newestPaidAt: this.#lastPaidAt,
      listedBeforePass: this.#payer.listedQuoteIds(),
    };
    const pass = this.#pass;
    const since = pass.since === null ? '' : `&since=${pass.since}`;
    const { body } = await requestJson(
      environment.origin,
      `/api/v2/wallet/quotes?limit=${PAGE_SIZE}&offset=${pass.offset}${since}`,
      { headers: { authorization: `Bearer ${this.#jwt}` } },
    );
    for (const { quoteId, paidAt } of body.data.quotes) {
      if (!skips(paidAt, this.#lastPaidAt)) {
        this.quoteIds.add(quoteId);
      }
      expect(paidAt * 1000).toBeLessThanOrEqual(clock.nowMs + 150);
      pass.newestPaidAt = Math.max(pass.newestPaidAt, paidAt);
    }
    const offset = nextOffset(pass.offset, body.data.quotes.length, body.metadata.total);
    if (offset !== null) {
      pass.offset = offset;
      return;
    }
    this.#pass = null;
    this.#lastPaidAt = pass.newestPaidAt;
    const missing = pass.listedBeforePass.filter((quoteId) => !this.quoteIds.has(quoteId));
    expect(missing, `${this.strategy}: listed before this pass, but not returned`).toEqual([]);
  }

  /** Finishes the current pass, and makes one more. */
  async finish(): Promise<void> {
    while (this.#pass !== null) {
      await this.readPage();
    }
    do {
      await this.readPage();
    } while (this.#pass !== null);
  }
}
