import fc from 'fast-check';
import { beforeAll, expect, it, vi } from 'vitest';
import type { StoredQuote } from '../../src/quotes/watched-quote-store.ts';
import { Store } from '../../src/store.ts';
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

/**
 * The service spaces the payment times of a recipient by a second. If payments are more frequent, these times get ahead
 * of the clock, but never by more than five seconds.
 */
const PAYMENT_SPACING_MS = 1_000;
const MAX_AHEAD_OF_CLOCK_MS = 5_000;

const clock = new TestClock();
const environment = useTestEnvironment({ overrides: { clock: clock.now } });
let store: Store;

beforeAll(async () => {
  store = new Store(environment.database.db);
});

it('returns every payment to every wallet, in any sequence of payments and page requests', async () => {
  await checkRandomSequences(
    ['offset by 50', 'offset by page', 'since the last', 'since before the last'],
    {
      isSlow: true,
    },
  );
});

it('returns every payment of a burst to wallets that do not skip quotes by their time', async () => {
  await checkRandomSequences(['offset by 50', 'offset by page', 'since before the last'], {
    isSlow: false,
  });
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

/**
 * Runs random sequences of steps. Checks that each reader finally has every payment.
 *
 * @param options.isSlow whether payments are so slow that no two payments have the same second
 */
async function checkRandomSequences(
  strategies: ReadStrategy[],
  { isSlow }: { isSlow: boolean },
): Promise<void> {
  const count = fc.integer({ min: 1, max: isSlow ? 6 : 30 });
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
    fc.asyncProperty(earlier, fc.array(step, { maxLength: 25 }), async (earlierCount, steps) => {
      // Payment times of the previous sequence may be ahead of the clock.
      clock.advance(60_000);
      const wallet = environment.newWallet();
      const { body } = await wallet.get('/api/v2/auth/nip98');
      const payer = new Payer(wallet.pubkey, isSlow);
      if (earlierCount > 0) {
        payer.paidQuoteIds.push(
          ...(await insertPaidQuotes(environment.database, wallet.pubkey, earlierCount)),
        );
      }
      const readers = strategies.map((strategy) => new Reader(strategy, body.data.token, payer));
      for (const each of steps) {
        if (each.kind === 'wait') {
          clock.advance(each.halfSeconds * 500);
        } else {
          await Promise.all([
            each.kind === 'read' ? readers[each.readerIndex]?.readPage() : null,
            payer.pay(each.paymentCount),
          ]);
        }
      }
      for (const reader of readers) {
        await reader.finish();
        expect([...reader.quoteIds].sort(), reader.strategy).toEqual(
          [...payer.paidQuoteIds].sort(),
        );
      }
      expect((await wallet.listPaidQuotes()).map((quote) => quote['quoteId'])).toEqual(
        payer.paidQuoteIds.toReversed(),
      );
    }),
    { seed: SEED, numRuns: SEQUENCES },
  );
}

/** Makes payments to a recipient. */
class Payer {
  /** In the order of the payments. */
  readonly paidQuoteIds: string[] = [];
  readonly #pubkey: string;
  readonly #isSlow: boolean;
  readonly #recorder = createObservationRecorder(store, { clock: clock.now });
  #lastPaidAtMs = 0;

  constructor(pubkey: string, isSlow: boolean) {
    this.#pubkey = pubkey;
    this.#isSlow = isSlow;
  }

  /** Makes payments one by one if the payer is slow, otherwise all at the same time. */
  async pay(count: number): Promise<void> {
    if (!this.#isSlow && count > 0) {
      await this.#payBatch(count);
    }
    for (let paidCount = 0; this.#isSlow && paidCount < count; paidCount += 1) {
      this.#advanceClockToNextPayment();
      await this.#payBatch(1);
    }
  }

  async #payBatch(count: number): Promise<void> {
    const quotes = Array.from({ length: count }, () =>
      buildUnpaidQuote(this.#pubkey, { createdAtMs: clock.nowMs }),
    );
    await store.quotes.insert(quotes);
    // In this state, quotes are not watched, so the service sends no polls.
    const issued = { state: 'ISSUED', source: 'poll' } as const;
    await this.#recorder.record(
      UNREACHABLE_MINT_URL,
      quotes.map(({ quoteId }) => ({ quoteId, ...issued })),
    );
    const rows = await store.watchedQuotes.findByQuoteIds(
      UNREACHABLE_MINT_URL,
      quotes.map((quote) => quote.quoteId),
    );
    this.paidQuoteIds.push(...rows.sort(byPaidAt).map((quote) => quote.quoteId));
  }

  #advanceClockToNextPayment(): void {
    const nextPaidAtMs = Math.max(clock.nowMs, this.#lastPaidAtMs + PAYMENT_SPACING_MS);
    clock.advance(Math.max(0, nextPaidAtMs - clock.nowMs - MAX_AHEAD_OF_CLOCK_MS));
    this.#lastPaidAtMs = nextPaidAtMs;
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
    paidBeforePass: string[];
  } | null = null;

  constructor(strategy: ReadStrategy, jwt: string, payer: Payer) {
    this.strategy = strategy;
    this.#jwt = jwt;
    this.#payer = payer;
  }

  /** Requests the next page, or the first page of a new pass. Checks each completed pass. */
  async readPage(): Promise<void> {
    const { sinceFor, nextOffset, skips } = READ_STRATEGIES[this.strategy];
    this.#pass ??= {
      since: sinceFor(this.#lastPaidAt),
      offset: 0,
      newestPaidAt: this.#lastPaidAt,
      paidBeforePass: [...this.#payer.paidQuoteIds],
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
      pass.newestPaidAt = Math.max(pass.newestPaidAt, paidAt);
    }
    const offset = nextOffset(pass.offset, body.data.quotes.length, body.metadata.total);
    if (offset !== null) {
      pass.offset = offset;
      return;
    }
    this.#pass = null;
    this.#lastPaidAt = pass.newestPaidAt;
    const missing = pass.paidBeforePass.filter((quoteId) => !this.quoteIds.has(quoteId));
    expect(missing, `${this.strategy}: paid before this pass, but not returned`).toEqual([]);
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

function byPaidAt(a: StoredQuote, b: StoredQuote): number {
  return (a.paidAtMs ?? 0) - (b.paidAtMs ?? 0);
}
