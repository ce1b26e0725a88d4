import type { Clock } from '../domain/clock.ts';
import type { NpubcashSource, NpubcashSurvey } from '../store/npubcash-source.ts';
import type { Store } from '../store/store.ts';
import type { BringParts } from './bring-npubcash.ts';
import { BringNpubcashQuotes } from './bring-npubcash-quotes.ts';
import { BringNpubcashUsers } from './bring-npubcash-users.ts';
import { type LeftOut, type NpubcashCounts, noCounts } from './npubcash-report.ts';

/** Who hears of an import while it goes on. */
export interface NpubcashListener {
  /** Told how many rows of a kind have come to their end, of how many. */
  onProgress(kind: 'users' | 'quotes', done: number, total: number): void;
  /** Told of each row that is left out; the import goes on when it resolves. */
  onLeftOut(leftOut: LeftOut): Promise<void>;
  /** Ends the import at the next row where it is aborted; what was brought over until then stays. */
  signal: AbortSignal;
}

/** How an import is run. */
export interface NpubcashRun {
  /**
   * Whether npubcash goes on serving wallets until a later run: then what would get a time of this service
   * waits for that one, and is counted as {@link NpubcashCounts.later}.
   */
  isEarly: boolean;
  /** Nothing is written, and all is counted and told as if it was. */
  isDry: boolean;
}

/** What came of an import. */
export interface NpubcashImport {
  /** What there was, and what of it is never brought over. */
  survey: NpubcashSurvey;
  counts: NpubcashCounts;
  /** Why the database did not count what came, which is here all the same; null where it did, or need not. */
  uncounted: string | null;
}

/**
 * Brings over the users, names, blocks and quotes of an npubcash server.
 *
 * Both may be at work meanwhile. It can be ended at any line and given again: what is here already is
 * passed over, and what is new there since is brought over.
 */
export class ImportNpubcash {
  readonly #store: Store;
  readonly #nameGraceMs: number;
  readonly #allowHttp: boolean;
  readonly #clock: Clock;

  /**
   * @param parts.nameGraceMs so long nobody else can have a name that its owner left for another
   * @param parts.allowHttp whether mints are asked over plain http here
   */
  constructor(parts: { store: Store; nameGraceMs: number; allowHttp: boolean; clock: Clock }) {
    this.#store = parts.store;
    this.#nameGraceMs = parts.nameGraceMs;
    this.#allowHttp = parts.allowHttp;
    this.#clock = parts.clock;
  }

  /**
   * Brings over everything that is new.
   *
   * @throws OperatorError where the source cannot be read on, and the signal's reason where it is aborted
   */
  async run(
    source: NpubcashSource,
    { isEarly, isDry }: NpubcashRun,
    listener: NpubcashListener,
  ): Promise<NpubcashImport> {
    const survey = await source.survey();
    const counts = noCounts();
    const common: Omit<BringParts, 'onRead'> = {
      source,
      store: this.#store,
      allowHttp: this.#allowHttp,
      isDry,
      counts,
      clock: this.#clock,
      leaveOut: async (leftOut) => {
        counts.leftOut[leftOut.reason] = (counts.leftOut[leftOut.reason] ?? 0) + 1;
        await listener.onLeftOut(leftOut);
      },
    };
    const done = { users: 0, quotes: 0 };
    const counter = (kind: 'users' | 'quotes') => (rows: number) => {
      listener.signal.throwIfAborted();
      done[kind] += rows;
      listener.onProgress(kind, done[kind], survey[kind]);
    };
    const users = { ...common, nameGraceMs: this.#nameGraceMs, onRead: counter('users') };
    await new BringNpubcashUsers(users).run();
    const { takenAtMs } = survey;
    const settle = () => this.#settle();
    const quotes = { ...common, isEarly, takenAtMs, settle, onRead: counter('quotes') };
    await new BringNpubcashQuotes(quotes).run();
    const uncounted = isDry || !hasChanged(counts) ? null : await this.#settle();
    counts.later = survey.quotes - done.quotes;
    return { survey, counts, uncounted };
  }

  /**
   * What was brought over is here whatever comes of this: without it, queries are slower until the database
   * counts by itself.
   *
   * @returns why it failed; null where it did not
   */
  async #settle(): Promise<string | null> {
    try {
      await this.#store.transaction((tx) => tx.npubcash.settle());
      return null;
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  }
}

/** Whether there are other users or quotes than before, or the same with another content. */
function hasChanged({ users, names, payments, invoices }: NpubcashCounts): boolean {
  return [users, names, payments, invoices].some(({ added, changed }) => added + changed > 0);
}
