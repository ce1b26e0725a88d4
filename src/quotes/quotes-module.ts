import type { Clock } from '../clock.ts';
import type { Db } from '../database/transaction.ts';
import type { Logger } from '../log.ts';
import type { Mints } from '../mints/mints-module.ts';
import { InvoiceAdmission, type InvoiceLimits } from './invoice-admission.ts';
import { InvoiceIssuer, type InvoiceIssuerDeps } from './invoice-issuer.ts';
import type { RecordingContext } from './observation-recorder.ts';
import { createQuoteAnnouncer } from './process-notifications.ts';
import { insertQuotes } from './quote-store.ts';
import { QuoteSubscribers } from './quote-subscribers.ts';
import { QuoteWriter } from './quote-writer.ts';
import { UpdateSender } from './update-sender.ts';

export interface QuotesModuleOptions
  extends Pick<InvoiceIssuerDeps, 'operatorRange' | 'onQuoteCreated' | 'onInvoiceFinished'> {
  db: Db;
  mints: Mints;
  zaps: RecordingContext['zaps'];
  limits: InvoiceLimits & { maxSocketsPerPubkey: number };
  secret: string;
  clock: Clock;
  monotonicMs: () => number;
  log: Logger;
}

/** Constructs the objects that issue invoices, record payments and notify wallets. */
export function createQuotesModule(options: QuotesModuleOptions) {
  const { db, mints, limits, clock, log } = options;
  const subscribers = new QuoteSubscribers(limits.maxSocketsPerPubkey);
  const recording: RecordingContext = {
    db,
    anomalies: mints.anomalies,
    zaps: options.zaps,
    clock,
    log,
  };
  return {
    invoiceIssuer: new InvoiceIssuer({
      ...options,
      quoteWriter: new QuoteWriter((quotes) => insertQuotes(db, quotes)),
      db,
      admission: new InvoiceAdmission({
        ...options,
        watchBudget: mints.watchBudget,
        db,
      }),
    }),
    recording,
    announcer: createQuoteAnnouncer(db, log),
    subscribers,
    updateSender: new UpdateSender({ db, subscribers, clock, log }),
  };
}
