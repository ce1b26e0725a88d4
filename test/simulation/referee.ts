import type { History } from './history.ts';
import type { Scheduler } from './scheduler.ts';
import type { Truth } from './truth.ts';
import type { ListedQuote } from './wallets.ts';

export interface Violation {
  rule: string;
  atMs: number;
  text: string;
}

/** What a client has seen of a payment. */
interface Sighting {
  paidAt: number;
  /** When a response or an update first showed it. */
  atMs: number;
  /** When a response first showed it as ISSUED. */
  issuedAtMs: number | null;
}

/** Compares what clients see with what really happened. */
export class Referee {
  readonly violations: Violation[] = [];
  readonly #scheduler: Scheduler;
  readonly #history: History;
  readonly #truth: Truth;
  readonly #sightings = new Map<string, Sighting>();
  readonly #settled = new Map<string, number>();

  readonly #databaseMayFail: boolean;

  constructor(scheduler: Scheduler, history: History, truth: Truth, databaseMayFail: boolean) {
    this.#databaseMayFail = databaseMayFail;
    this.#scheduler = scheduler;
    this.#history = history;
    this.#truth = truth;
  }

  report(rule: string, text: string): void {
    this.#history.add('referee', () => `BROKEN: ${rule}: ${text}`);
    this.violations.push({ rule, atMs: this.#scheduler.nowMs, text });
  }

  /** A page of a recipient's list. @param requestedAtMs when the client sent the request */
  checkPage(pubkey: string, quotes: readonly ListedQuote[], requestedAtMs: number): void {
    const { nowMs } = this.#scheduler;
    let previous = Number.POSITIVE_INFINITY;
    for (const quote of quotes) {
      const { quoteId, paidAt, state } = quote;
      const payment = this.#truth.paymentsByQuoteId.get(quoteId);
      if (payment?.invoice.recipient.pubkey !== pubkey) {
        this.report('listed only if paid', `${quoteId} is listed for ${pubkey}`);
        continue;
      }
      const { invoice } = payment;
      if (quote.amount !== invoice.amountSat || quote.mintUrl !== invoice.mint.url) {
        this.report('right fields', `${quoteId}: ${JSON.stringify(quote)}`);
      }
      if (paidAt > previous) {
        this.report('newest first', `${quoteId} is newer than the quote before it`);
      }
      previous = paidAt;
      const sighting = this.#sightings.get(quoteId);
      if (sighting === undefined) {
        const issuedAtMs = state === 'ISSUED' ? nowMs : null;
        this.#sightings.set(quoteId, { paidAt, atMs: nowMs, issuedAtMs });
        payment.listedAtMs ??= nowMs;
        continue;
      }
      if (sighting.paidAt !== paidAt && sighting.paidAt !== -1) {
        this.report('paidAt is constant', `${quoteId}: ${sighting.paidAt}, then ${paidAt}`);
      }
      sighting.paidAt = paidAt;
      sighting.atMs = Math.min(sighting.atMs, nowMs);
      payment.listedAtMs ??= nowMs;
      if (state === 'ISSUED') {
        sighting.issuedAtMs ??= nowMs;
      } else if (sighting.issuedAtMs !== null && sighting.issuedAtMs < requestedAtMs) {
        this.report('states go forward', `${quoteId} was ISSUED, and is ${state} again`);
      }
    }
  }

  /** All pages of a list, none with `since`. */
  checkWholeList(pubkey: string, quotes: readonly ListedQuote[], requestedAtMs: number): void {
    const ids = new Set(quotes.map(({ quoteId }) => quoteId));
    if (ids.size < quotes.length) {
      this.report('listed once', `${pubkey} has a payment twice in one list`);
    }
    for (const { quoteId } of this.#truth.paymentsOf(pubkey)) {
      const sighting = this.#sightings.get(quoteId);
      if (sighting !== undefined && sighting.atMs < requestedAtMs && !ids.has(quoteId)) {
        this.report('stays listed', `${quoteId} was listed or announced, and is missing now`);
      }
    }
  }

  checkUpdate(pubkey: string, quoteId: string): void {
    const payment = this.#truth.paymentsByQuoteId.get(quoteId);
    if (payment?.invoice.recipient.pubkey !== pubkey) {
      this.report('updates only if paid', `${pubkey} got an update of ${quoteId}`);
    } else if (!this.#sightings.has(quoteId)) {
      // From now on, every list must contain it.
      // Unless the database cannot write: then lists show only what they had shown before.
      const atMs = this.#databaseMayFail ? Number.POSITIVE_INFINITY : this.#scheduler.nowMs;
      this.#sightings.set(quoteId, { paidAt: -1, atMs, issuedAtMs: null });
    }
  }

  checkVerify(quoteId: string, isPaid: boolean, settled: boolean, requestedAtMs: number): void {
    const settledAtMs = this.#settled.get(quoteId);
    if (settled && !isPaid) {
      this.report('settled only if paid', quoteId);
    }
    if (settled) {
      this.#settled.set(quoteId, settledAtMs ?? this.#scheduler.nowMs);
    } else if (settledAtMs !== undefined && settledAtMs < requestedAtMs) {
      this.report('settled stays true', quoteId);
    }
  }

  /** Returns the `paidAt` that clients saw; -1 if they saw none. */
  getPaidAt(quoteId: string): number {
    return this.#sightings.get(quoteId)?.paidAt ?? -1;
  }

  isListed(quoteId: string): boolean {
    return this.getPaidAt(quoteId) !== -1;
  }
}
