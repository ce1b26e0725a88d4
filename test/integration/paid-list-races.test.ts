import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { toUnixSeconds } from '../../src/clock.ts';
import { listPaidQuotes } from '../../src/quotes/paid-list-store.ts';
import { insertQuotes } from '../../src/quotes/quote-store.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';
import {
  buildUnpaidQuote,
  createObservationRecorder,
  randomPubkey,
  UNREACHABLE_MINT_URL,
} from '../helpers/recipients/quote-fixtures.ts';

/** A fixed seed, so that every test run generates the same sequences of steps. */
const SEED = 20_261_128;
const SEQUENCES = 60;
vi.setConfig({ testTimeout: 120_000 });

/** More open transactions would wait for a connection. */
const MAX_HELD_COMMITS = 3;

const NOW_MS = 1_800_000_000_000;

const database = useTestDatabase();

interface Recording {
  kind: 'record';
  processIndex: number;
  count: number;
  /** Whether the commit waits for a step of the kind `commit`. */
  isHeld: boolean;
}

type Step =
  | Recording
  | { kind: 'commit' }
  | { kind: 'read'; processIndex: number; walletIndex: number }
  | { kind: 'wait'; ms: number }
  | { kind: 'set clock'; processIndex: number; skewMs: number };

const processIndex = fc.nat({ max: 1 });
const isHeld = fc.boolean();
const stepOf = <Kind extends string, Fields>(
  weight: number,
  kind: Kind,
  fields: { [Name in keyof Fields]: fc.Arbitrary<Fields[Name]> },
) => ({ weight, arbitrary: fc.record({ kind: fc.constant(kind), ...fields }) });
const step = fc.oneof(
  stepOf(4, 'record', { processIndex, count: fc.integer({ min: 1, max: 3 }), isHeld }),
  stepOf(3, 'commit', {}),
  stepOf(5, 'read', { processIndex, walletIndex: fc.nat({ max: 2 }) }),
  stepOf(4, 'wait', { ms: fc.oneof(fc.nat({ max: 400 }), fc.nat({ max: 3_000 })) }),
  stepOf(1, 'set clock', {
    processIndex,
    skewMs: fc.oneof(
      fc.integer({ min: -700, max: 700 }),
      fc.integer({ min: -20_000, max: 20_000 }),
    ),
  }),
) as unknown as fc.Arbitrary<Step>;

describe.each([
  // Payments are recorded between the pages.
  ['its only wallet reads many pages', { pageSize: 2, walletCount: 1 }],
  ['several wallets read the list', { pageSize: 50, walletCount: 3 }],
])('a recipient receives every payment if %s', (_name, options) => {
  it('whenever the payments commit and whatever the clocks of two processes show', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60, size: 'max' }), async (steps) => {
        const scenario = new Scenario(options);
        for (const each of steps) {
          await scenario.run(each);
        }
        await scenario.finish();
      }),
      // Shrinking would take minutes.
      { seed: SEED, numRuns: SEQUENCES, endOnFailure: true },
    );
  });
});

/** Two processes with their own clocks record payments to one recipient, whose wallets read the list. */
class Scenario {
  readonly db = database.db;
  readonly wallets: Wallet[];
  readonly #pubkey = randomPubkey();
  readonly #paidQuoteIds: string[] = [];
  readonly #skewsMs = [0, 0];
  /** Each lets a recorded payment commit. */
  readonly #held: (() => void)[] = [];
  readonly #recordings: Promise<unknown>[] = [];
  #nowMs = NOW_MS;

  constructor({ pageSize, walletCount }: { pageSize: number; walletCount: number }) {
    const readPage: ReadPage = async (page, processIndex) => {
      return await listPaidQuotes(this.db, this.#pubkey, page, this.#clockOf(processIndex));
    };
    this.wallets = [
      // coco
      { overlapSeconds: 0, ignoresOld: true },
      // cashu.me
      { overlapSeconds: 1, ignoresOld: false },
      // npubcash-sdk without `since`
      { overlapSeconds: Number.MAX_SAFE_INTEGER, ignoresOld: false },
    ]
      .slice(0, walletCount)
      .map((kind) => new Wallet({ readPage, pageSize, ...kind }));
  }

  async run(each: Step): Promise<void> {
    switch (each.kind) {
      case 'wait':
        this.#nowMs += each.ms;
        break;
      case 'set clock':
        this.#skewsMs[each.processIndex] = each.skewMs;
        break;
      case 'record':
        await this.#record(each);
        break;
      case 'commit':
        await this.#commitOldest();
        break;
      case 'read': {
        const reading = this.wallets[each.walletIndex % this.wallets.length]?.synchronize(
          each.processIndex,
        );
        // While a commit is held, the read may wait for it.
        if (this.#held.length === 0) {
          await reading;
        }
      }
    }
  }

  /** Commits everything, and expects every wallet to receive every payment. */
  async finish(): Promise<void> {
    while (this.#held.length > 0) {
      await this.#commitOldest();
    }
    await Promise.all(this.wallets.map((wallet) => wallet.synchronize(0)));
    this.#skewsMs.fill(0);
    this.#nowMs += 60_000;
    for (const wallet of this.wallets) {
      await wallet.synchronize(0);
      expect([...wallet.quoteIds].toSorted()).toEqual(this.#paidQuoteIds.toSorted());
    }
  }

  #clockOf(processIndex: number): number {
    return this.#nowMs + (this.#skewsMs[processIndex] ?? 0);
  }

  async #record({ processIndex, count, isHeld }: Recording): Promise<void> {
    const quotes = Array.from({ length: count }, () => buildUnpaidQuote(this.#pubkey));
    const quoteIds = quotes.map(({ quoteId }) => quoteId);
    const paid = { state: 'PAID', source: 'poll' } as const;
    const observations = quoteIds.map((quoteId) => ({ quoteId, ...paid }));
    this.#paidQuoteIds.push(...quoteIds);
    const mayWait = this.#held.length > 0;
    const gate = Promise.withResolvers<void>();
    const hasWritten = Promise.withResolvers<void>();
    const recorder = createObservationRecorder(this.db, {
      clock: () => this.#clockOf(processIndex),
      zaps: {
        signReceipts: async () => {
          hasWritten.resolve();
          await gate.promise;
          return { signed: [], refused: [] };
        },
        onReceiptsCreated: () => undefined,
      },
    });
    const recording = insertQuotes(this.db, quotes).then(() =>
      recorder.record(UNREACHABLE_MINT_URL, observations),
    );
    this.#recordings.push(recording);
    if (isHeld && this.#held.length < MAX_HELD_COMMITS) {
      this.#held.push(gate.resolve);
      await (mayWait ? null : hasWritten.promise);
    } else {
      gate.resolve();
      await (mayWait ? null : recording);
    }
  }

  async #commitOldest(): Promise<void> {
    this.#held.shift()?.();
    // Otherwise a recording may wait for a commit that is held.
    if (this.#held.length === 0) {
      await Promise.all(this.#recordings);
    }
  }
}

type ReadPage = (
  page: Parameters<typeof listPaidQuotes>[2],
  processIndex: number,
) => ReturnType<typeof listPaidQuotes>;

class Wallet {
  readonly quoteIds = new Set<string>();
  readonly #options;
  #newestPaidAt = 0;
  #synchronization = Promise.resolve();

  constructor(options: {
    readPage: ReadPage;
    pageSize: number;
    /** How far before the newest known payment the wallet starts to read. */
    overlapSeconds: number;
    ignoresOld: boolean;
  }) {
    this.#options = options;
  }

  /** Reads all pages, the first one from this process and the others from alternating processes. */
  synchronize(processIndex: number): Promise<void> {
    this.#synchronization = this.#synchronization.then(() => this.#readAllPages(processIndex));
    return this.#synchronization;
  }

  async #readAllPages(processIndex: number): Promise<void> {
    const { readPage, pageSize, overlapSeconds, ignoresOld } = this.#options;
    const since = this.#newestPaidAt;
    const sinceSeconds = Math.max(0, since - overlapSeconds);
    let total = 1;
    for (let offset = 0; offset < total; offset += pageSize) {
      const page = { sinceSeconds, limit: pageSize, offset };
      const result = await readPage(page, (processIndex + offset / pageSize) % 2);
      total = result.total;
      for (const { quoteId, paidAtMs } of result.quotes) {
        const paidAt = toUnixSeconds(paidAtMs);
        if (!ignoresOld || paidAt > since) {
          this.quoteIds.add(quoteId);
        }
        this.#newestPaidAt = Math.max(this.#newestPaidAt, paidAt);
      }
    }
  }
}
