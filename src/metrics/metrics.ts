import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { ChannelKind } from '../database/schema.ts';
import type { MintPolicy } from '../mints/mint-policy.ts';
import type { FinishedMintRequest, MintRoute } from '../mints/mint-rate-limiter.ts';
import type { ObservedState } from '../mints/quote-responses.ts';
import type { DeliveryResult } from '../notifications/delivery-policy.ts';
import type { ObservationSource, RecordedQuote } from '../quotes/decide-observation.ts';
import type { InvoiceOutcome } from '../quotes/issue-invoice.ts';
import { type GaugeSources, MetricGauges, OTHER_LABEL, toUrlLabel } from './gauges.ts';

const DURATION_BUCKETS_SECONDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
];

const LABELLED_METHODS: ReadonlySet<string> = new Set([
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'PATCH',
  'OPTIONS',
]);

const INVOICE_OUTCOMES: readonly InvoiceOutcome['outcome'][] = [
  'issued',
  'failed',
  'invalid',
  'rate_limited',
  'unavailable',
  'database_unavailable',
];

/** The metrics that Prometheus reads from this process: counters of events, and gauges of the current state. */
export class Metrics {
  readonly #registry = new Registry();
  readonly #mintPolicy: MintPolicy;
  readonly #metrics: ReturnType<typeof createMetrics>;
  #gauges: MetricGauges | null = null;

  constructor({ version, mintPolicy }: { version: string; mintPolicy: MintPolicy }) {
    collectDefaultMetrics({ register: this.#registry });
    // promtool rejects these names, because only counters may end in `_total`.
    for (const name of ['handles', 'requests', 'resources']) {
      this.#registry.removeSingleMetric(`nodejs_active_${name}_total`);
    }
    new Gauge({
      name: 'nutpost_build_info',
      help: 'The running version.',
      labelNames: ['version'],
      registers: [this.#registry],
    }).set({ version }, 1);
    this.#mintPolicy = mintPolicy;
    this.#metrics = createMetrics(this.#registry);
    this.#initialiseSeries();
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  addGauges(sources: GaugeSources): void {
    this.#gauges = new MetricGauges(this.#registry, sources);
  }

  async collect(): Promise<string> {
    await this.#gauges?.refresh();
    return this.#registry.metrics();
  }

  /** Waits for a query of the gauges that is in progress. */
  async waitForCounts(): Promise<void> {
    await this.#gauges?.waitForCounts();
  }

  recordResponse(response: {
    method: string;
    route: string;
    status: number;
    durationMs: number;
    hasInternalError: boolean;
  }): void {
    const { route, status, durationMs, hasInternalError } = response;
    const method = LABELLED_METHODS.has(response.method) ? response.method : 'other';
    this.#metrics.httpRequests.inc({ method, route, status });
    this.#metrics.httpFailures.inc(Number(hasInternalError));
    this.#metrics.httpSeconds.observe({ route }, durationMs / 1_000);
  }

  recordInvoiceRequest(result: InvoiceOutcome): void {
    this.#metrics.invoices.inc({ outcome: result.outcome });
    if (result.outcome === 'issued') {
      this.#metrics.invoiceSeconds.observe({ part: 'mint' }, result.mintMs / 1_000);
      this.#metrics.invoiceSeconds.observe({ part: 'service' }, result.serviceMs / 1_000);
    }
  }

  recordMintRequest({ mintUrl, route, outcome, durationMs }: FinishedMintRequest): void {
    const mint = toUrlLabel(mintUrl, this.#mintPolicy.operatorMints);
    this.#metrics.mintRequests.inc({ mint, route, outcome });
    this.#metrics.mintSeconds.observe({ mint, route }, durationMs / 1_000);
  }

  recordQuoteChanges(changes: readonly RecordedQuote[]): void {
    for (const { state, source } of changes) {
      this.#metrics.quoteChanges.inc({ state, source });
    }
  }

  recordNotification(channel: ChannelKind, outcome: DeliveryResult['outcome']): void {
    this.#metrics.notifications.inc({ channel, outcome });
  }

  recordNetworkThreadStop(): void {
    this.#metrics.networkThreadStops.inc();
  }

  /** Starts important time series at 0, because `rate()` in Prometheus ignores the first value of a time series. */
  #initialiseSeries(): void {
    const { invoices, invoiceSeconds, quoteChanges, mintRequests, mintSeconds } = this.#metrics;
    for (const outcome of INVOICE_OUTCOMES) {
      invoices.inc({ outcome }, 0);
    }
    invoiceSeconds.zero({ part: 'mint' });
    invoiceSeconds.zero({ part: 'service' });
    for (const state of ['INFLIGHT', 'PAID', 'ISSUED'] satisfies ObservedState[]) {
      for (const source of ['socket', 'poll'] satisfies ObservationSource[]) {
        quoteChanges.inc({ state, source }, 0);
      }
    }
    for (const mint of [...this.#mintPolicy.operatorMints, OTHER_LABEL]) {
      for (const route of ['create', 'read', 'check'] satisfies MintRoute[]) {
        mintSeconds.zero({ mint, route });
        for (const outcome of ['rate_limited', 'unavailable']) {
          mintRequests.inc({ mint, route, outcome }, 0);
        }
      }
    }
  }
}

function createMetrics(registry: Registry) {
  const registers = [registry];
  const buckets = DURATION_BUCKETS_SECONDS;
  const counter = <L extends string = never>(name: string, help: string, ...labelNames: L[]) =>
    new Counter<L>({ name: `nutpost_${name}_total`, help, labelNames, registers });
  const histogram = <L extends string>(prefix: string, help: string, ...labelNames: L[]) => {
    const name = `nutpost_${prefix}_duration_seconds`;
    return new Histogram<L>({ name, help, labelNames, buckets, registers });
  };
  return {
    httpRequests: counter('http_requests', 'HTTP requests.', 'method', 'route', 'status'),
    httpFailures: counter(
      'http_failures',
      'Failures because of a bug or the database; all logged.',
    ),
    httpSeconds: histogram('http_request', 'Time until the response was sent.', 'route'),
    invoices: counter('invoices', 'Invoice requests: issued, or the kind of error.', 'outcome'),
    invoiceSeconds: histogram('invoice', 'Waiting for the mint, and the rest.', 'part'),
    mintRequests: counter('mint_requests', 'Requests to mints.', 'mint', 'route', 'outcome'),
    mintSeconds: histogram('mint_request', 'Including failures.', 'mint', 'route'),
    networkThreadStops: counter('network_thread_stops', 'How often it was blocked or died.'),
    notifications: counter('notifications', 'Attempts to send one.', 'channel', 'outcome'),
    quoteChanges: counter('quote_changes', 'Recorded changes of quotes.', 'state', 'source'),
  };
}
