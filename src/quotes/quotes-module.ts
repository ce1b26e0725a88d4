import { InvoiceAdmission, type InvoiceLimits } from './invoice-admission.ts';
import type { InvoiceContext } from './issue-invoice.ts';
import type { RecordingContext } from './observation-recorder.ts';
import { createQuoteAnnouncer } from './process-notifications.ts';
import { createQuoteWriter } from './quote-store.ts';
import { QuoteSubscribers, UpdateSender } from './update-sender.ts';

interface QuotesOptions extends Omit<InvoiceContext, 'admission' | 'storeQuote'> {
  zaps: RecordingContext['zaps'];
  limits: InvoiceLimits & { maxSocketsPerPubkey: number };
  /** The key for hashing addresses is derived from this secret. */
  secret: string;
}

export function createQuotesModule({ zaps, limits, secret, ...context }: QuotesOptions) {
  const { db, mints, clock, monotonicMs, log } = context;
  const { anomalies, watchBudget } = mints;
  const admission = new InvoiceAdmission({ db, watchBudget, limits, secret, clock, monotonicMs });
  const subscribers = new QuoteSubscribers(limits.maxSocketsPerPubkey);
  const invoices: InvoiceContext = { ...context, admission, storeQuote: createQuoteWriter(db) };
  const recording: RecordingContext = { db, anomalies, zaps, clock, log };
  return {
    invoices,
    recording,
    announcer: createQuoteAnnouncer(db, log),
    subscribers,
    updateSender: new UpdateSender({ db, subscribers, clock, log }),
  };
}
