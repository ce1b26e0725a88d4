import { isPaidState } from '../domain/quote.ts';
import { encodeUpdates, QUOTE_CHANNEL } from '../notifications/quote-channel.ts';
import type { NpubcashQuote } from '../store/npubcash-source.ts';
import type { TransactionStore } from '../store/store.ts';
import type { NpubcashRun, SkippedRow } from './import-npubcash.ts';
import { areOfOneSecond, keyOfQuote, planQuotes } from './plan-npubcash-quotes.ts';
import { type OldQuote, readNpubcashQuote, type SkipReason } from './read-npubcash.ts';

/** A transaction takes a fraction of a second, for which payments to its recipients wait. */
const QUOTES_PER_TRANSACTION = 500;

/**
 * Imports payments, each recipient's in their order, and then all other quotes, the oldest first: a mint's
 * subscription prefers the newest rows.
 */
export async function importNpubcashQuotes(run: NpubcashRun): Promise<void> {
  const duplicates = await findDuplicates(run);
  for (const pages of [run.source.paidQuotes(), run.source.unpaidQuotes()]) {
    let batch: OldQuote[] = [];
    let skipped: SkippedRow[] = [];
    for await (const rows of pages) {
      for (const row of rows) {
        const quote = duplicates.get(row.id) ?? readQuote(row, run);
        if (typeof quote === 'string') {
          skipped.push({ row: `mint_quotes ${row.id}`, reason: quote });
          continue;
        }
        if (batch.length >= QUOTES_PER_TRANSACTION && !areOfOneSecond(batch.at(-1), quote)) {
          await importBatch(batch, skipped, run);
          batch = [];
          skipped = [];
        }
        batch.push(quote);
      }
      run.progress('quotes', rows.length);
    }
    await importBatch(batch, skipped, run);
  }
}

/**
 * Several rows may contain one quote. The first readable one counts.
 *
 * @returns why the others are skipped, by `NpubcashQuote.id`
 */
async function findDuplicates(run: NpubcashRun): Promise<Map<number, SkipReason>> {
  const counting = new Map<string, OldQuote>();
  const duplicates = new Map<number, SkipReason>();
  for await (const rows of run.source.repeatedQuotes()) {
    for (const row of rows) {
      const quote = readQuote(row, run);
      if (typeof quote === 'string') {
        continue;
      }
      const first = counting.get(keyOfQuote(quote));
      if (first === undefined) {
        counting.set(keyOfQuote(quote), quote);
      } else {
        const isSame = first.pubkey === quote.pubkey;
        duplicates.set(row.id, isSame ? 'same_quote_twice' : 'quote_of_another');
      }
    }
  }
  return duplicates;
}

function readQuote(row: NpubcashQuote, { keys, allowHttp, clock }: NpubcashRun) {
  return readNpubcashQuote(row, { keys, allowHttp, nowMs: clock() });
}

function importBatch(
  batch: readonly OldQuote[],
  skipped: SkippedRow[],
  run: NpubcashRun,
): Promise<void> {
  return run.step(async (tx) => {
    // Locked before the quotes are read: another import may be adding the same ones.
    const counters = await tx.users.lockPaymentCounters(recipientsOf(batch));
    const plan = planQuotes(
      batch,
      {
        present: await findPresent(tx, batch),
        counters: new Map(counters.map((counter) => [counter.pubkey, counter])),
      },
      run.clock(),
    );
    const paid = await tx.npubcash.addQuotes(plan.additions);
    await tx.users.savePaymentCounters(plan.counters);
    // A wallet reads its whole list after an update, so one for each recipient is enough.
    const updates = new Map(paid.map((row) => [row.pubkey, row]));
    await tx.notify(QUOTE_CHANNEL, encodeUpdates([...updates.values()]));
    const { counts } = run;
    for (const { state, watchUntilMs } of plan.additions) {
      counts[isPaidState(state) ? 'payments' : 'invoices'].added += 1;
      counts.watched += watchUntilMs === null ? 0 : 1;
    }
    for (const { state } of plan.present) {
      counts[isPaidState(state) ? 'payments' : 'invoices'].present += 1;
    }
    counts.redated += plan.redated;
    return skipped;
  });
}

/** Those quotes that are here already, by {@link keyOfQuote}. */
async function findPresent(tx: TransactionStore, batch: readonly OldQuote[]): Promise<Set<string>> {
  const present = new Set<string>();
  for (const mintUrl of new Set(batch.map((quote) => quote.mintUrl))) {
    const ofMint = batch.filter((quote) => quote.mintUrl === mintUrl);
    const held = await tx.watch.findHeld(
      mintUrl,
      ofMint.map(({ quoteId }) => quoteId),
    );
    for (const { quoteId } of held) {
      present.add(keyOfQuote({ mintUrl, quoteId }));
    }
  }
  return present;
}

function recipientsOf(quotes: readonly OldQuote[]): string[] {
  const paid = quotes.filter(({ state }) => isPaidState(state));
  return [...new Set(paid.map(({ pubkey }) => pubkey))];
}
