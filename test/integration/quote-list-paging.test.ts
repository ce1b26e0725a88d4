import fc from 'fast-check';
import { beforeAll, expect, it, vi } from 'vitest';
import type { StoredQuote } from '../../src/quotes/watched-quote-store.ts';
import { Store } from '../../src/store.ts';
import {
  buildUnpaidQuote,
  createObservationRecorder,
  insertPayments,
  UNREACHABLE_MINT_URL,
} from '../helpers/quotes.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { useTestEnvironment } from '../helpers/test-environment.ts';
import { requestJson } from '../helpers/test-wallet.ts';

/**
 * Wallets read the list while payments arrive, each in its own way (`offset`, `since`). In any order of payments,
 * waits and page requests, each wallet ends with every payment exactly once.
 */

/** The same cases in every run. */
const SEED = 20_260_807;
const RUNS = 20;

/** A run makes some hundred requests. */
vi.setConfig({ testTimeout: 180_000 });

const PAGE_SIZE = 50;

/** Payments are a second apart in the list while that stays within five seconds of the clock. */
const SPACING_MS = 1_000;
const MAX_AHEAD_MS = 5_000;

const clock = new TestClock();
const world = useTestEnvironment({ overrides: { clock: clock.now } });
let store: Store;

beforeAll(async () => {
  store = new Store(world.database.db);
});

it('gives every kind of wallet every payment exactly once', async () => {
  await checkAll(['offset by 50', 'offset by page', 'since the last', 'since before the last'], {
    isPaced: true,
  });
});

it('loses no payment of a burst for wallets without their own watermark', async () => {
  await checkAll(['offset by 50', 'offset by page', 'since before the last'], { isPaced: false });
});

type Kind = keyof typeof KINDS;

/** How today's wallets read (facts: npubcash-sdk, cashu.me, coco). */
const KINDS = {
  'offset by 50': { sinceFor: () => null, nextOffset: byFifty, skips: () => false },
  'offset by page': { sinceFor: () => null, nextOffset: byPageLength, skips: () => false },
  'since the last': {
    sinceFor: (lastPaidAt: number) => lastPaidAt,
    nextOffset: byFifty,
    // A watermark: the wallet ignores quotes that are not later.
    skips: (paidAt: number, lastPaidAt: number) => paidAt <= lastPaidAt,
  },
  'since before the last': {
    sinceFor: (lastPaidAt: number) => Math.max(0, lastPaidAt - 1),
    nextOffset: byPageLength,
    skips: () => false,
  },
} as const;

/** The SDK: advances the offset by fifty until the total is reached. */
function byFifty(offset: number, _pageLength: number, total: number): number | null {
  return offset + PAGE_SIZE >= total ? null : offset + PAGE_SIZE;
}

/** cashu.me: advances the offset by the length of the page until a page is empty. */
function byPageLength(offset: number, pageLength: number): number | null {
  return pageLength === 0 ? null : offset + pageLength;
}

type Step =
  | { kind: 'pay' | 'wait'; amount: number }
  | { kind: 'read'; amount: number; reader: number; isPaidMeanwhile: boolean };

async function checkAll(kinds: Kind[], { isPaced }: { isPaced: boolean }): Promise<void> {
  const amount = fc.integer({ min: 1, max: isPaced ? 6 : 30 });
  const step: fc.Arbitrary<Step> = fc.oneof(
    fc.record({ kind: fc.constantFrom('pay' as const, 'wait' as const), amount }),
    fc.record({
      kind: fc.constant('read' as const),
      amount,
      reader: fc.nat({ max: kinds.length - 1 }),
      isPaidMeanwhile: fc.boolean(),
    }),
  );
  const earlier = fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 170 }));
  await fc.assert(
    fc.asyncProperty(earlier, fc.array(step, { maxLength: 25 }), async (earlierPayments, steps) => {
      // The previous case leaves no payment ahead of the clock, and no signature is too old.
      clock.advance(60_000);
      const wallet = world.newWallet();
      const { body } = await wallet.get('/api/v2/auth/nip98');
      const payer = new Payer(wallet.pubkey, isPaced);
      if (earlierPayments > 0) {
        payer.paid.push(...(await insertPayments(world.database, wallet.pubkey, earlierPayments)));
      }
      const readers = kinds.map((kind) => new Reader(kind, body.data.token, payer));
      for (const each of steps) {
        if (each.kind === 'read') {
          await Promise.all([
            readers[each.reader]?.readPage(),
            each.isPaidMeanwhile ? payer.pay(each.amount) : null,
          ]);
        } else if (each.kind === 'pay') {
          await payer.pay(each.amount);
        } else {
          clock.advance(each.amount * 500);
        }
      }
      for (const each of readers) {
        await each.finish();
        expect([...each.collected].sort(), each.kind).toEqual([...payer.paid].sort());
      }
      expect((await wallet.listQuotes()).map((quote) => quote['quoteId'])).toEqual(
        payer.paid.toReversed(),
      );
    }),
    { seed: SEED, numRuns: RUNS },
  );
}

/** Pays one recipient, at any time or so slowly that no two payments share a second. */
class Payer {
  /** Ids, in the order of the payments. */
  readonly paid: string[] = [];
  readonly #pubkey: string;
  readonly #isPaced: boolean;
  readonly #recorder = createObservationRecorder(store, { clock: clock.now });
  #lastPaidAtMs = 0;

  constructor(pubkey: string, isPaced: boolean) {
    this.#pubkey = pubkey;
    this.#isPaced = isPaced;
  }

  /** Pays one by one at the pace, or all at the same time. */
  async pay(count: number): Promise<void> {
    for (let paid = 0; this.#isPaced && paid < count; paid += 1) {
      this.#waitForPace();
      await this.#payAtOnce(1);
    }
    if (!this.#isPaced) {
      await this.#payAtOnce(count);
    }
  }

  async #payAtOnce(count: number): Promise<void> {
    const quotes = Array.from({ length: count }, () =>
      buildUnpaidQuote(this.#pubkey, { createdAtMs: clock.nowMs }),
    );
    await store.quotes.insert(quotes);
    // Issued immediately, so that no mint must be polled.
    const issued = { state: 'ISSUED', source: 'poll' } as const;
    await this.#recorder.record(
      UNREACHABLE_MINT_URL,
      quotes.map(({ quoteId }) => ({ quoteId, ...issued })),
    );
    const held = await store.watchedQuotes.findByQuoteIds(
      UNREACHABLE_MINT_URL,
      quotes.map((quote) => quote.quoteId),
    );
    this.paid.push(...held.sort(byPaidAt).map((quote) => quote.quoteId));
  }

  #waitForPace(): void {
    const nextPaidAtMs = Math.max(clock.nowMs, this.#lastPaidAtMs + SPACING_MS);
    clock.advance(Math.max(0, nextPaidAtMs - clock.nowMs - MAX_AHEAD_MS));
    this.#lastPaidAtMs = nextPaidAtMs;
  }
}

/** A wallet that synchronises page by page, and starts again after the last page. */
class Reader {
  readonly kind: Kind;
  readonly collected = new Set<string>();
  readonly #token: string;
  readonly #payer: Payer;
  #lastPaidAt = 0;
  #sync: { since: number | null; offset: number; newest: number; mustFind: string[] } | null = null;

  constructor(kind: Kind, token: string, payer: Payer) {
    this.kind = kind;
    this.#token = token;
    this.#payer = payer;
  }

  /** Requests the next page, or the first page of a new round. */
  async readPage(): Promise<void> {
    const { sinceFor, nextOffset, skips } = KINDS[this.kind];
    this.#sync ??= {
      since: sinceFor(this.#lastPaidAt),
      offset: 0,
      newest: this.#lastPaidAt,
      mustFind: [...this.#payer.paid],
    };
    const sync = this.#sync;
    const since = sync.since === null ? '' : `&since=${sync.since}`;
    const { body } = await requestJson(
      world.origin,
      `/api/v2/wallet/quotes?limit=${PAGE_SIZE}&offset=${sync.offset}${since}`,
      { headers: { authorization: `Bearer ${this.#token}` } },
    );
    for (const { quoteId, paidAt } of body.data.quotes) {
      if (!skips(paidAt, this.#lastPaidAt)) {
        this.collected.add(quoteId);
      }
      sync.newest = Math.max(sync.newest, paidAt);
    }
    const offset = nextOffset(sync.offset, body.data.quotes.length, body.metadata.total);
    if (offset !== null) {
      sync.offset = offset;
      return;
    }
    this.#sync = null;
    this.#lastPaidAt = sync.newest;
    const missing = sync.mustFind.filter((quoteId) => !this.collected.has(quoteId));
    expect(missing, `${this.kind}: paid before the round began, and not found by it`).toEqual([]);
  }

  /** Finishes the current round, and does one more. */
  async finish(): Promise<void> {
    while (this.#sync !== null) {
      await this.readPage();
    }
    do {
      await this.readPage();
    } while (this.#sync !== null);
  }
}

function byPaidAt(a: StoredQuote, b: StoredQuote): number {
  return (a.paidAtMs ?? 0) - (b.paidAtMs ?? 0);
}
