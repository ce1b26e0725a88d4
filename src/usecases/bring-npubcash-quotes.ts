import { readInvoice } from '../domain/bolt11.ts';
import { isPaidState, type PaidState } from '../domain/quote.ts';
import { encodeUpdates, QUOTE_CHANNEL, type QuoteUpdate } from '../notifications/quote-channel.ts';
import type { PresentQuote } from '../store/npubcash-import-store.ts';
import type { NpubcashQuote } from '../store/npubcash-source.ts';
import type { TransactionStore } from '../store/store.ts';
import type { PaymentCounter } from '../store/user-store.ts';
import type { BringParts } from './bring-npubcash.ts';
import { keyOfQuote, planQuotes, type QuotesPlan, secondOf } from './plan-npubcash-quotes.ts';
import { type BroughtQuote, KeyReader, readMintUrl, readNpubcashQuote } from './read-npubcash.ts';

/** Quotes that are brought over in one transaction: a fraction of a second, for which others wait. */
const QUOTES_PER_TRANSACTION = 500;

/** With so many more quotes the database counts for the first time; then whenever they have doubled. */
const FIRST_SETTLED = 10_000;

/** Rows of payments that are asked for by their ids at a time. */
const IDS_AT_ONCE = 5_000;

/**
 * Payments of so long before an early run wait for the next one, counted in whole seconds: npubcash may be
 * writing more of them, and those of one second have to come together.
 */
const UNSETTLED_MS = 10_000;

/** Which step of a payment a copy of its row is at: the furthest is taken. */
const STEPS: readonly (PaidState | 'other')[] = ['ISSUED', 'PAID', 'INFLIGHT', 'other'];

/** What quotes are brought over with. */
interface BringQuotesParts extends BringParts {
  /** Whether npubcash goes on serving wallets, as of `NpubcashRun`. */
  isEarly: boolean;
  /** Has the database count what it has; that it could not is said at the end of the import. */
  settle: () => Promise<unknown>;
}

/** Brings over the quotes of an npubcash server, in transactions of some hundred. */
export class BringNpubcashQuotes {
  readonly #parts: BringQuotesParts;
  readonly #settledMs: number;
  readonly #keys = new KeyReader();
  /** Rows that are not the one that counts of their quote, and that one. */
  readonly #copies = new Map<number, BroughtQuote>();
  #added = 0;
  #settleAt = FIRST_SETTLED;

  /** @param parts.takenAtMs as of {@link NpubcashSurvey} */
  constructor(parts: BringQuotesParts & { takenAtMs: number }) {
    this.#parts = parts;
    this.#settledMs = parts.isEarly ? endOfSettledMs(parts.takenAtMs) : Number.POSITIVE_INFINITY;
  }

  /**
   * Brings over everything that is not here, or early, all of it that has its time.
   *
   * Payments go first, each recipient's in their order; then those of which the time has to be another
   * one here; then invoices, the oldest first, because a mint's socket takes up the newest rows. Early, the
   * latter two wait, and payments of the last seconds: a wallet that comes here with the newest time that
   * it has seen there would pass over what is listed as paid now.
   */
  async run(): Promise<void> {
    await this.#findCopies();
    const deferred = await this.#bring(this.#parts.source.paidQuotes(), false);
    if (this.#parts.isEarly) {
      return;
    }
    for (let start = 0; start < deferred.length; start += IDS_AT_ONCE) {
      const ids = deferred.slice(start, start + IDS_AT_ONCE);
      await this.#bring(this.#parts.source.paidQuotesById(ids), true);
    }
    await this.#bring(this.#parts.source.otherQuotes(), true);
  }

  /**
   * Npubcash does not keep an id from being there twice, and of one mint's two spellings made two. The row
   * that is furthest on counts, among equals the one that was paid first, then the oldest.
   */
  async #findCopies(): Promise<void> {
    const mints = new Map<string, string>();
    for (const spelling of await this.#parts.source.mintSpellings()) {
      const mintUrl = readMintUrl(spelling);
      if (mintUrl !== null) {
        mints.set(spelling, mintUrl);
      }
    }
    let copies: BroughtQuote[] = [];
    for await (const rows of this.#parts.source.copiedQuotes(mints)) {
      for (const row of rows) {
        const quote = this.#read(row);
        if (typeof quote === 'string') {
          continue;
        }
        if (copies[0] !== undefined && keyOfQuote(copies[0]) !== keyOfQuote(quote)) {
          this.#choose(copies);
          copies = [];
        }
        copies.push(quote);
      }
    }
    this.#choose(copies);
  }

  /** @param copies all rows of one quote */
  #choose(copies: readonly BroughtQuote[]): void {
    const [taken, ...others] = copies.toSorted((a, b) => (countsBefore(a, b) ? -1 : 1));
    for (const other of others) {
      this.#copies.set(other.row, taken ?? other);
    }
  }

  /** @returns `BroughtQuote.row` of those that are left for the end, where this is not the end */
  async #bring(pages: AsyncIterable<NpubcashQuote[]>, isLast: boolean): Promise<number[]> {
    const deferred: number[] = [];
    let batch: BroughtQuote[] = [];
    const bringBatch = async () => {
      const plan = await this.#bringBatch(batch, isLast);
      deferred.push(...plan.deferred);
      this.#parts.onRead(batch.length - plan.deferred.length);
      batch = [];
    };
    for await (const rows of pages) {
      for (const row of rows) {
        const quote = await this.#readOrLeaveOut(row);
        if (quote === null) {
          continue;
        }
        if (batch.length >= QUOTES_PER_TRANSACTION && !isOfOneSecond(batch.at(-1), quote)) {
          await bringBatch();
        }
        batch.push(quote);
      }
    }
    await bringBatch();
    return deferred;
  }

  #read(row: NpubcashQuote) {
    return readNpubcashQuote(row, {
      keys: this.#keys,
      allowHttp: this.#parts.allowHttp,
      nowMs: this.#parts.clock(),
    });
  }

  async #readOrLeaveOut(row: NpubcashQuote): Promise<BroughtQuote | null> {
    const quote = this.#read(row);
    if (typeof quote === 'string') {
      this.#parts.onRead(1);
      await this.#parts.leaveOut({ table: 'mint_quotes', id: row.id, reason: quote });
      return null;
    }
    const taken = this.#copies.get(row.id);
    if (taken === undefined) {
      return quote;
    }
    this.#parts.onRead(1);
    const reason = taken.pubkey === quote.pubkey ? 'same_quote_twice' : 'quote_of_another';
    await this.#parts.leaveOut({ table: 'mint_quotes', id: row.id, reason, instead: taken.row });
    return null;
  }

  async #bringBatch(batch: readonly BroughtQuote[], isLast: boolean): Promise<QuotesPlan> {
    const plan = this.#parts.isDry
      ? await this.#plan(batch, isLast)
      : await this.#makeAndWrite(batch, isLast);
    this.#count(plan);
    await this.#settle(plan.additions.length);
    for (const id of plan.ofAnother) {
      await this.#parts.leaveOut({ table: 'mint_quotes', id, reason: 'quote_of_another' });
    }
    return plan;
  }

  /** A plan that was made for a few quotes would be kept for many. */
  async #settle(added: number): Promise<void> {
    this.#added += added;
    if (this.#added < this.#settleAt || this.#parts.isDry) {
      return;
    }
    await this.#parts.settle();
    this.#settleAt = 2 * this.#added;
  }

  async #plan(batch: readonly BroughtQuote[], isLast: boolean): Promise<QuotesPlan> {
    const { npubcash } = this.#parts.store;
    const counters = await npubcash.counters(recipientsOf(batch));
    const present = await npubcash.findPresent(batch);
    return this.#decide(batch, byKey(counters, present), isLast, this.#parts.clock());
  }

  /** Counters of who is new are made before the transaction: in it, a payment of that moment could overtake them. */
  async #makeAndWrite(batch: readonly BroughtQuote[], isLast: boolean): Promise<QuotesPlan> {
    const { store } = this.#parts;
    await store.users.makePaymentCounters(recipientsOf(batch));
    return store.transaction((tx) => this.#write(tx, batch, isLast));
  }

  /** The counters are locked before the quotes, as where payments are recorded. */
  async #write(
    tx: TransactionStore,
    batch: readonly BroughtQuote[],
    isLast: boolean,
  ): Promise<QuotesPlan> {
    await tx.npubcash.queue();
    const counters = await tx.users.lockPaymentCounters(recipientsOf(batch));
    const present = await tx.npubcash.lockPresent(batch);
    const nowMs = this.#parts.clock();
    const plan = this.#decide(batch, byKey(counters, present), isLast, nowMs);
    const added = await tx.npubcash.add(
      plan.additions.map((quote) => ({
        ...quote,
        paymentHash: readInvoice(quote.request)?.paymentHash ?? null,
      })),
    );
    await tx.watch.applyChanges(plan.changes.map(({ change }) => change));
    await tx.users.savePaymentCounters(plan.counters);
    // One of each recipient’s is enough: quotes that are brought have no verify url, and nobody keeps them.
    await tx.notify(QUOTE_CHANNEL, encodeUpdates(updatesOf(plan, added)));
    return plan;
  }

  #decide(
    batch: readonly BroughtQuote[],
    known: ReturnType<typeof byKey>,
    isLast: boolean,
    nowMs: number,
  ): QuotesPlan {
    return planQuotes(batch, known, { isLast, nowMs, settledMs: this.#settledMs });
  }

  #count({ additions, changes, unchanged, dated }: QuotesPlan): void {
    const tallyOf = ({ state }: Pick<BroughtQuote, 'state'>) =>
      isPaidState(state) ? this.#parts.counts.payments : this.#parts.counts.invoices;
    for (const quote of additions) {
      tallyOf(quote).added += 1;
      this.#parts.counts.watched += quote.watchUntilMs === null ? 0 : 1;
    }
    for (const { quote } of changes) {
      tallyOf(quote).changed += 1;
    }
    for (const quote of unchanged) {
      tallyOf(quote).unchanged += 1;
    }
    this.#parts.counts.dated += dated;
  }
}

/** The last moment of the last second that waits for nothing. */
function endOfSettledMs(takenAtMs: number): number {
  return secondOf(takenAtMs - UNSETTLED_MS) * 1000 - 1;
}

/** Whether the first of two copies is the one that counts. */
function countsBefore(a: BroughtQuote, b: BroughtQuote): boolean {
  const step = ({ state }: BroughtQuote) => STEPS.indexOf(isPaidState(state) ? state : 'other');
  const paidAtMs = (quote: BroughtQuote) => quote.paidAtMs ?? Number.POSITIVE_INFINITY;
  if (step(a) !== step(b)) {
    return step(a) < step(b);
  }
  return paidAtMs(a) === paidAtMs(b) ? a.row < b.row : paidAtMs(a) < paidAtMs(b);
}

/** What one list shows at one time is brought over together: apart, the rest would be late. */
function isOfOneSecond(a: BroughtQuote | undefined, b: BroughtQuote): boolean {
  return (
    a?.pubkey === b.pubkey &&
    a.paidAtMs !== null &&
    b.paidAtMs !== null &&
    secondOf(a.paidAtMs) === secondOf(b.paidAtMs)
  );
}

function recipientsOf(quotes: readonly BroughtQuote[]): string[] {
  const paid = quotes.filter(({ state }) => isPaidState(state));
  return [...new Set(paid.map(({ pubkey }) => pubkey))];
}

function byKey(counters: readonly PaymentCounter[], present: readonly PresentQuote[]) {
  return {
    counters: new Map(counters.map((counter) => [counter.pubkey, counter])),
    present: new Map(present.map((quote) => [keyOfQuote(quote), quote])),
  };
}

/** One of each recipient's, the newest: on any, a wallet reads its list. */
function updatesOf(
  { additions, changes }: QuotesPlan,
  added: readonly { id: number; mintUrl: string; quoteId: string }[],
): QuoteUpdate[] {
  const ids = new Map(added.map((row) => [keyOfQuote(row), row.id]));
  const listed = [
    ...changes.map(({ quote, change }) => ({ ...quote, id: change.id })),
    ...additions
      .filter(({ payment }) => payment !== null)
      .map((quote) => ({ ...quote, id: ids.get(keyOfQuote(quote)) ?? 0 })),
  ];
  const newest = new Map(
    listed.map(({ id, pubkey, quoteId }) => [pubkey, { id, pubkey, quoteId }]),
  );
  return [...newest.values()];
}
