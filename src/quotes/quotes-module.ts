import type { Clock } from '../clock.ts';
import type { Db } from '../database/transaction.ts';
import type { Logger } from '../log.ts';
import type { Mints } from '../mints/mints-module.ts';
import { InvoiceAdmission, type InvoiceLimits } from './invoice-admission.ts';
import type { InvoiceContext } from './issue-invoice.ts';
import type { RecordingContext } from './observation-recorder.ts';
import { createQuoteAnnouncer } from './process-notifications.ts';
import { insertQuotes } from './quote-store.ts';
import { QuoteSubscribers } from './quote-subscribers.ts';
import { QuoteWriter } from './quote-writer.ts';
import { UpdateSender } from './update-sender.ts';

interface QuotesOptions {
  db: Db;
  mints: Mints;
  zaps: RecordingContext['zaps'];
  limits: InvoiceLimits & { maxSocketsPerPubkey: number };
  /** The key for hashing addresses is derived from this secret. */
  secret: string;
  operatorRange: InvoiceContext['operatorRange'];
  onQuoteCreated: InvoiceContext['onQuoteCreated'];
  onInvoiceFinished: InvoiceContext['onInvoiceFinished'];
  clock: Clock;
  monotonicMs: () => number;
  log: Logger;
}

/** Constructs the objects that issue invoices, record payments and notify wallets. */
export function createQuotesModule(options: QuotesOptions) {
  const { db, mints, zaps, limits, secret, clock, monotonicMs, log } = options;
  const { operatorRange, onQuoteCreated, onInvoiceFinished } = options;
  const { anomalies, watchBudget } = mints;
  const subscribers = new QuoteSubscribers(limits.maxSocketsPerPubkey);
  const admission = new InvoiceAdmission({ db, watchBudget, limits, secret, clock, monotonicMs });
  const quoteWriter = new QuoteWriter((quotes) => insertQuotes(db, quotes));
  const invoices: InvoiceContext = {
    db,
    mints,
    admission,
    quoteWriter,
    operatorRange,
    onQuoteCreated,
    onInvoiceFinished,
    clock,
    monotonicMs,
    log,
  };
  const recording: RecordingContext = { db, anomalies, zaps, clock, log };
  return {
    invoices,
    recording,
    announcer: createQuoteAnnouncer(db, log),
    subscribers,
    updateSender: new UpdateSender({ db, subscribers, clock, log }),
  };
}
