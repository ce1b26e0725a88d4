import { InvoiceAdmission, type InvoiceLimits } from './invoice-admission.ts';
import type { InvoiceContext } from './issue-invoice.ts';
import type { RecordingContext } from './observation-recorder.ts';
import { createQuoteAnnouncer } from './process-notifications.ts';
import { createQuoteWriter } from './quote-store.ts';
import { QuoteSubscribers, UpdateSender } from './update-sender.ts';

/** The context of invoices, without what this module adds to it, and the options of the other parts. */
interface QuotesOptions extends Omit<InvoiceContext, 'admission' | 'storeQuote'> {
  zaps: RecordingContext['zaps'];
  recordNotifications: RecordingContext['recordNotifications'];
  limits: InvoiceLimits & { maxSocketsPerPubkey: number };
  /** The key for hashing addresses is derived from this secret. */
  secret: string;
}

export function createQuotesModule(options: QuotesOptions) {
  const { zaps, recordNotifications, limits, secret, ...context } = options;
  const { db, mints, clock, monotonicMs, log } = context;
  const { watchBudget } = mints;
  const admission = new InvoiceAdmission({ db, watchBudget, limits, secret, clock, monotonicMs });
  const subscribers = new QuoteSubscribers(limits.maxSocketsPerPubkey);
  const storeQuote = createQuoteWriter(db);
  const invoiceContext: InvoiceContext = { ...context, admission, storeQuote };
  const recordingContext: RecordingContext = { db, zaps, recordNotifications, clock, log };
  return {
    invoiceContext,
    recordingContext,
    announcer: createQuoteAnnouncer(db, log),
    subscribers,
    updateSender: new UpdateSender({ db, subscribers, clock, log }),
  };
}
