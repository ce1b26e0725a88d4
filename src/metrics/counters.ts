import { Counter, Histogram, type Registry } from 'prom-client';
import type { RefusalNature } from '../errors.ts';
import type { FinishedRequest, MintRoute } from '../mints/mint-rate-limiter.ts';
import type { InvoiceTiming } from '../quotes/issue-invoice.ts';
import type { ObservedState } from '../mints/quote-answer.ts';
import type { ObservationSource, RecordedQuote } from '../quotes/record-observations.ts';

/** The label of all mints and relays that the operator has not named. */
export const OTHER = 'other';

/** From a database query to the longest wait for a mint, in seconds. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Clients may send any that Node knows; the rest count as `other`. */
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PATCH', 'OPTIONS']);

/**
 * Counts events as they happen. No label has a value that a stranger can choose: the operator's mints have
 * their URL, all others are `other`.
 */
export class Counters {
  readonly #ownMints: ReadonlySet<string>;
  readonly #requests: Counter<'method' | 'route' | 'status'>;
  readonly #requestFailures: Counter;
  readonly #requestSeconds: Histogram<'route'>;
  readonly #invoices: Counter<'outcome'>;
  readonly #invoiceSeconds: Histogram<'part'>;
  readonly #mintRequests: Counter<'mint' | 'route' | 'outcome'>;
  readonly #mintSeconds: Histogram<'mint' | 'route'>;
  readonly #changes: Counter<'state' | 'source'>;

  /** @param ownMints normalised urls of the mints that the operator has named */
  constructor(registry: Registry, ownMints: readonly string[]) {
    const registers = [registry];
    this.#ownMints = new Set(ownMints);
    this.#requests = new Counter({
      name: 'nutpost_http_requests_total',
      help: 'Requests that were answered.',
      labelNames: ['method', 'route', 'status'],
      registers,
    });
    this.#requestFailures = new Counter({
      name: 'nutpost_http_failures_total',
      help: 'Requests that met a bug or a broken database: each is an ERROR in the log.',
      registers,
    });
    this.#requestSeconds = new Histogram({
      name: 'nutpost_http_request_duration_seconds',
      help: 'How long requests took until their answer was sent.',
      labelNames: ['route'],
      buckets: BUCKETS,
      registers,
    });
    this.#invoices = new Counter({
      name: 'nutpost_invoices_total',
      help: 'Requests for an invoice by how they ended: issued, or why not.',
      labelNames: ['outcome'],
      registers,
    });
    this.#invoiceSeconds = new Histogram({
      name: 'nutpost_invoice_duration_seconds',
      help: 'How long invoices took that were issued: the wait for the mint, and our own part.',
      labelNames: ['part'],
      buckets: BUCKETS,
      registers,
    });
    this.#mintRequests = new Counter({
      name: 'nutpost_mint_requests_total',
      help: 'Requests that were sent to mints, by what came of them.',
      labelNames: ['mint', 'route', 'outcome'],
      registers,
    });
    this.#mintSeconds = new Histogram({
      name: 'nutpost_mint_request_duration_seconds',
      help: 'How long mints took to answer, or were waited for.',
      labelNames: ['mint', 'route'],
      buckets: BUCKETS,
      registers,
    });
    this.#changes = new Counter({
      name: 'nutpost_quote_changes_total',
      help: 'Changes of quotes that were recorded, by the new state and where the news came from.',
      labelNames: ['state', 'source'],
      registers,
    });
    this.#beginAtZero();
  }

  responseSent(response: {
    method: string;
    route: string;
    status: number;
    tookMs: number;
    hasFailed: boolean;
  }): void {
    const { method, route, status, tookMs, hasFailed } = response;
    this.#requests.inc({ method: METHODS.has(method) ? method : 'other', route, status });
    this.#requestFailures.inc(Number(hasFailed));
    this.#requestSeconds.observe({ route }, tookMs / 1_000);
  }

  invoiceTimed({ outcome, tookMs, mintMs }: InvoiceTiming): void {
    this.#invoices.inc({ outcome });
    if (outcome === 'issued') {
      this.#invoiceSeconds.observe({ part: 'mint' }, mintMs / 1_000);
      this.#invoiceSeconds.observe({ part: 'service' }, (tookMs - mintMs) / 1_000);
    }
  }

  mintRequestFinished({ mintUrl, route, outcome, tookMs }: FinishedRequest): void {
    const mint = this.#ownMints.has(mintUrl) ? mintUrl : OTHER;
    this.#mintRequests.inc({ mint, route, outcome });
    this.#mintSeconds.observe({ mint, route }, tookMs / 1_000);
  }

  quotesChanged(news: readonly RecordedQuote[]): void {
    for (const { state, source } of news) {
      this.#changes.inc({ state, source });
    }
  }

  /** What was never seen would be missing: of its first time, Prometheus could not tell a rate. */
  #beginAtZero(): void {
    const outcomes: InvoiceTiming['outcome'][] = ['issued', 'failed', ...REFUSALS];
    for (const outcome of outcomes) {
      this.#invoices.inc({ outcome }, 0);
    }
    for (const part of ['mint', 'service']) {
      this.#invoiceSeconds.zero({ part });
    }
    for (const state of ['INFLIGHT', 'PAID', 'ISSUED'] satisfies ObservedState[]) {
      for (const source of ['socket', 'poll'] satisfies ObservationSource[]) {
        this.#changes.inc({ state, source }, 0);
      }
    }
    for (const mint of [...this.#ownMints, OTHER]) {
      for (const route of ['create', 'read', 'check'] satisfies MintRoute[]) {
        this.#mintSeconds.zero({ mint, route });
        for (const outcome of ['rate_limited', 'unavailable']) {
          this.#mintRequests.inc({ mint, route, outcome }, 0);
        }
      }
    }
  }
}

const REFUSALS: RefusalNature[] = ['invalid', 'too_many', 'unavailable'];
