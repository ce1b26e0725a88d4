import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { Mints } from '../mints/create-mints.ts';
import type { Store } from '../store.ts';
import { InvoiceAdmission, type InvoiceLimits } from './invoice-admission.ts';
import { type InvoiceTiming, IssueInvoice } from './issue-invoice.ts';
import type { SendableRange } from './lnurl.ts';
import { type IssuedQuote, quoteAnnouncer } from './quote-channel.ts';
import { QuoteWriter } from './quote-store.ts';
import { QuoteSubscribers } from './quote-subscribers.ts';
import { RecordObservations, type RecordObservationsParts } from './record-observations.ts';
import { openUpdateLog } from './update-log.ts';

export interface CreateQuotesOptions {
  store: Store;
  mints: Mints;
  zaps: RecordObservationsParts['zaps'];
  operatorRange: SendableRange;
  limits: InvoiceLimits & { socketsPerKey: number };
  /** A secret of the service. */
  secret: string;
  /** Called after a quote was stored; the payer gets its invoice next. */
  onIssued: (quote: IssuedQuote) => void;
  onTimed: (timing: InvoiceTiming) => void;
  clock: Clock;
  monotonicMs: () => number;
  log: Log;
}

/** Constructs what issues invoices, records what mints report, and notifies wallets. */
export function createQuotes(options: CreateQuotesOptions) {
  const { store, mints, limits, secret, clock, monotonicMs, log } = options;
  const { limiter, infos, anomalies } = mints;
  return {
    issueInvoice: new IssueInvoice({
      infos,
      operatorRange: options.operatorRange,
      mints: mints.quoteCreator,
      quotes: new QuoteWriter(store.quotes),
      admission: new InvoiceAdmission({
        limiter,
        quotes: store.quotes,
        limits,
        secret,
        patienceMs: limiter.payerPatienceMs,
        clock,
        monotonicMs,
      }),
      onIssued: options.onIssued,
      onTimed: options.onTimed,
      monotonicMs,
      clock,
      log,
    }),
    recordObservations: new RecordObservations({
      store,
      anomalies,
      zaps: options.zaps,
      clock,
      log,
    }),
    /** Announces issued quotes to other processes. */
    announcer: quoteAnnouncer(store, log),
    subscribers: new QuoteSubscribers(limits.socketsPerKey),
    updateLog: openUpdateLog(store.events, clock, log),
  };
}
