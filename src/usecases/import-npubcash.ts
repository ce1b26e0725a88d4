import type { Clock } from '../domain/clock.ts';
import { RESCAN_CHANNEL } from '../notifications/quote-channel.ts';
import type { NpubcashSource, NpubcashSurvey } from '../store/npubcash-source.ts';
import type { Store, TransactionStore } from '../store/store.ts';
import { importNpubcashQuotes } from './import-npubcash-quotes.ts';
import { importNpubcashBlocks, importNpubcashUsers } from './import-npubcash-users.ts';
import { KeyReader, type SkipReason } from './read-npubcash.ts';

/** A row of the old server that is not imported, or not completely. */
export interface SkippedRow {
  /** Its table and id, such as `mint_quotes 12`. */
  row: string;
  reason: SkipReason;
}

/** How many things of one kind were added, and how many were here before. */
export interface Tally {
  added: number;
  present: number;
}

/** What an import did. */
export interface NpubcashCounts {
  users: Tally;
  names: Tally;
  blocks: Tally;
  /** Quotes whose payment has arrived. */
  payments: Tally;
  /** All other quotes. */
  invoices: Tally;
  /** Added payments that are listed as paid now, because wallets would not see them at their own time. */
  redated: number;
  /** Added quotes that are watched from now on. */
  watched: number;
  skipped: Partial<Record<SkipReason, number>>;
}

/** How an import is run, and who follows it. */
export interface NpubcashImportOptions {
  /** Roll everything back, and report what an import would do. */
  isDry: boolean;
  onProgress(kind: 'users' | 'quotes', done: number, total: number): void;
  /** Called with skipped rows; the import continues when it resolves. */
  onSkipped(rows: readonly SkippedRow[]): Promise<void>;
  /** Ends the import after the current transaction. */
  signal: AbortSignal;
}

/** What the steps of an import share. */
export interface NpubcashRun {
  source: NpubcashSource;
  /** Whether this service sends requests to mints over plain http. */
  allowHttp: boolean;
  keys: KeyReader;
  counts: NpubcashCounts;
  clock: Clock;
  /** Runs one step in a transaction, which a dry run rolls back. The step returns the rows that it skips. */
  step(work: (tx: TransactionStore) => Promise<SkippedRow[]>): Promise<void>;
  progress(kind: 'users' | 'quotes', rows: number): void;
}

/** Imports the users, names, blocks and quotes of a stopped npubcash server. */
export class ImportNpubcash {
  readonly #store: Store;
  readonly #allowHttp: boolean;
  readonly #clock: Clock;

  /** @param parts.allowHttp whether this service sends requests to mints over plain http */
  constructor(parts: { store: Store; allowHttp: boolean; clock: Clock }) {
    this.#store = parts.store;
    this.#allowHttp = parts.allowHttp;
    this.#clock = parts.clock;
  }

  /**
   * Imports everything that is not here yet, in many short transactions. It can be interrupted at any time
   * and run again. Nothing that is here is replaced.
   *
   * @throws OperatorError if the source cannot be read, and the signal's reason if it is aborted
   */
  async run(
    source: NpubcashSource,
    { isDry, onProgress, onSkipped, signal }: NpubcashImportOptions,
  ): Promise<{ survey: NpubcashSurvey; counts: NpubcashCounts }> {
    const survey = await source.survey();
    const counts = noCounts();
    const done = { users: 0, quotes: 0 };
    const run: NpubcashRun = {
      source,
      allowHttp: this.#allowHttp,
      keys: new KeyReader(),
      counts,
      clock: this.#clock,
      step: async (work) => {
        signal.throwIfAborted();
        let skipped: SkippedRow[] = [];
        await this.#store.attempt(async (tx) => {
          skipped = await work(tx);
          return !isDry;
        });
        for (const { reason } of skipped) {
          counts.skipped[reason] = (counts.skipped[reason] ?? 0) + 1;
        }
        if (skipped.length > 0) {
          await onSkipped(skipped);
        }
      },
      progress: (kind, rows) => {
        done[kind] += rows;
        onProgress(kind, done[kind], survey[kind]);
      },
    };
    await importNpubcashBlocks(run);
    await importNpubcashUsers(run);
    await importNpubcashQuotes(run);
    if (!isDry) {
      // The processes that watch the mints of these quotes may be others.
      await this.#store.transaction((tx) => tx.notify(RESCAN_CHANNEL, ['']));
    }
    return { survey, counts };
  }
}

function noCounts(): NpubcashCounts {
  const none = () => ({ added: 0, present: 0 });
  return {
    users: none(),
    names: none(),
    blocks: none(),
    payments: none(),
    invoices: none(),
    redated: 0,
    watched: 0,
    skipped: {},
  };
}
