import { toUnixSeconds } from '../../clock.ts';
import { notify } from '../../database/transaction.ts';
import { encodePayloads, QUOTE_UPDATES_CHANNEL } from '../../quotes/process-notifications.ts';
import {
  computePaidAtMs,
  computeWatchUntilMs,
  isPaidQuoteState,
} from '../../quotes/quote-state.ts';
import {
  lockPaymentCounters,
  type PaymentCounter,
  savePaymentCounters,
} from '../../recipients/user-store.ts';
import { formatCount } from '../format.ts';
import type { ImportRun } from './import-run.ts';
import {
  findExistingQuotes,
  type ImportedQuote,
  insertImportedQuotes,
} from './npubcash-import-store.ts';
import type { NpubcashSource } from './npubcash-source.ts';
import { type ParsedNpubcashQuote, parseNpubcashQuote } from './parse-npubcash-rows.ts';

/** Few, because no new payments to the recipients are recorded until the transaction ends, after part of a second. */
const QUOTES_PER_TRANSACTION = 500;

export async function importQuotes(run: ImportRun, source: NpubcashSource): Promise<void> {
  const { allowHttpMints, clock, io } = run.options;
  const keysInSource = new Set<string>();
  let batch: ParsedNpubcashQuote[] = [];
  let readCount = 0;
  for await (const rows of source.readQuotes()) {
    for (const row of rows) {
      const quote = parseNpubcashQuote(row, { allowHttpMints, nowMs: clock() });
      // A string is the reason to skip the row.
      if (typeof quote === 'string') {
        run.skip(`mint_quotes ${row.id}`, quote);
        continue;
      }
      if (keysInSource.has(toQuoteKey(quote))) {
        run.skip(`mint_quotes ${row.id}`, 'same_quote_twice');
        continue;
      }
      keysInSource.add(toQuoteKey(quote));
      // planQuoteImport needs all payments of a recipient in the same second in one transaction.
      if (batch.length >= QUOTES_PER_TRANSACTION && !isSamePaidSecond(batch.at(-1), quote)) {
        await importBatch(run, batch);
        batch = [];
      }
      batch.push(quote);
    }
    readCount += rows.length;
    io.reportProgress(formatCount(readCount, 'quote'));
  }
  await importBatch(run, batch);
}

async function importBatch(run: ImportRun, batch: readonly ParsedNpubcashQuote[]): Promise<void> {
  await run.transaction(async (tx) => {
    // Locks the counters before reading the quotes, because another import may be adding the same quotes.
    const paidQuotes = batch.filter(({ state }) => isPaidQuoteState(state));
    const pubkeys = paidQuotes.map(({ pubkey }) => pubkey);
    const counters = await lockPaymentCounters(tx, pubkeys);
    const existingKeys = new Set((await findExistingQuotes(tx, batch)).map(toQuoteKey));
    const newQuotes = batch.filter((quote) => !existingKeys.has(toQuoteKey(quote)));
    const plan = planQuoteImport(newQuotes, counters, run.options.clock());
    const insertedPayments = await insertImportedQuotes(tx, plan.quotes);
    await savePaymentCounters(tx, plan.counters);
    // One update for each recipient is enough, because the wallet then reads its whole list.
    const updateByPubkey = new Map(insertedPayments.map((update) => [update.pubkey, update]));
    await notify(tx, QUOTE_UPDATES_CHANNEL, encodePayloads([...updateByPubkey.values()]));
    for (const quote of batch) {
      const kind = isPaidQuoteState(quote.state) ? 'payments' : 'invoices';
      run.count(kind, !existingKeys.has(toQuoteKey(quote)));
    }
    run.summary.watchedCount += plan.quotes.filter((quote) => quote.watchUntilMs !== null).length;
    run.summary.changedTimeCount += plan.changedTimeCount;
  });
}

/**
 * Decides the payment times and positions of new quotes. Wallets ignore payments that are not later than the newest
 * second that they have seen. So a payment keeps its time only if wallets have not seen that second, and no stored
 * payment of the recipient is later. Every other payment is listed as paid now. Payments that shared a second at
 * npubcash still share a second.
 *
 * @param newQuotes ordered by payment time; must contain either all or none of a recipient's payments in one second
 * @param storedCounters the counters of the recipients of paid quotes
 */
export function planQuoteImport(
  newQuotes: readonly ParsedNpubcashQuote[],
  storedCounters: readonly PaymentCounter[],
  nowMs: number,
): { quotes: ImportedQuote[]; counters: PaymentCounter[]; changedTimeCount: number } {
  const storedByPubkey = new Map(storedCounters.map((counter) => [counter.pubkey, counter]));
  const plannedByPubkey = new Map<string, PaymentCounter>();
  let changedTimeCount = 0;
  const quotes = newQuotes.map((quote) => {
    const { pubkey, paidAtMs: sourceMs } = quote;
    let payment: ImportedQuote['payment'] = null;
    if (isPaidQuoteState(quote.state)) {
      const counter = plannedByPubkey.get(pubkey) ?? storedByPubkey.get(pubkey);
      if (counter === undefined) {
        throw new Error('a payment needs the counter of its recipient');
      }
      const isPast = sourceMs !== null && sourceMs <= nowMs;
      const canKeepTime = isPast && computePaidAtMs(counter, sourceMs) === sourceMs;
      const paidAtMs = canKeepTime ? sourceMs : computePaidAtMs(counter, nowMs);
      changedTimeCount += canKeepTime ? 0 : 1;
      const paidCount = counter.paidCount + 1;
      payment = { paidAtMs, paidSeq: paidCount };
      plannedByPubkey.set(pubkey, { ...counter, paidCount, lastPaidAtMs: paidAtMs });
    }
    const watched = { ...quote, paidAtMs: payment?.paidAtMs ?? null };
    const untilMs = quote.isMintAllowed ? computeWatchUntilMs(watched) : null;
    // An old payment is not watched: the service would poll it once, although its watch period has ended.
    const isOldPayment = quote.state === 'PAID' && untilMs !== null && untilMs <= nowMs;
    return { ...quote, payment, watchUntilMs: isOldPayment ? null : untilMs };
  });
  return { quotes, counters: [...plannedByPubkey.values()], changedTimeCount };
}

function toQuoteKey({ mintUrl, quoteId }: { mintUrl: string; quoteId: string }): string {
  return `${mintUrl} ${quoteId}`;
}

/** Returns whether both quotes were paid, to the same recipient and in the same second. */
function isSamePaidSecond(a: ParsedNpubcashQuote | undefined, b: ParsedNpubcashQuote): boolean {
  const toSecond = ({ paidAtMs }: ParsedNpubcashQuote) => paidAtMs && toUnixSeconds(paidAtMs);
  return a?.pubkey === b.pubkey && a.paidAtMs !== null && toSecond(a) === toSecond(b);
}
