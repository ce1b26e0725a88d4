import { isKnownToIssueAfterExpiry } from '../../src/mints/issue-after-expiry.ts';
import type { FaultPlan } from './faults.ts';
import type { Health } from './health.ts';
import type { History } from './history.ts';
import { getNoticeDeadlineMs, getNoticeMs } from './promises.ts';
import type { Actor, Scheduler } from './scheduler.ts';
import type { SimulatedDatabase } from './simulated-database.ts';
import type { ClientRequest, ClientResponse } from './simulated-network.ts';
import { type Invoice, isForgotten, type Payment, type Truth } from './truth.ts';
import { toUnixSeconds } from './virtual-platform.ts';
import type { ListedPage, ListedQuote } from './wallet-client.ts';

export interface Violation {
  rule: string;
  atMs: number;
  text: string;
}

/** What clients have seen of a payment. Times are virtual milliseconds. */
interface Sighting {
  /** Unix seconds. Null: only an update was seen. */
  paidAt: number | null;
  /** When a response first contained it. From then on, every list must. */
  listedAtMs: number;
  /** When a wallet first got an update. From about then, every list must contain it. */
  announcedAtMs: number;
  /** Its number among the payments of the recipient. */
  position: number | null;
  /** When a response first showed it as ISSUED. */
  issuedAtMs: number | null;
}

interface RefereeContext {
  scheduler: Scheduler;
  history: History;
  truth: Truth;
  faults: FaultPlan;
  database: SimulatedDatabase;
  health: Health;
}

/** Compares what clients see with what really happened. */
export class Referee {
  readonly violations: Violation[] = [];
  /** Whether the first violation ends the run. */
  stopsEarly = false;
  readonly #context: RefereeContext;
  readonly #sightings = new Map<string, Sighting>();
  /** The quote ids of each recipient by their positions. */
  readonly #positions = new Map<string, Map<number, string>>();
  readonly #settledAtMs = new Map<string, number>();
  /** Since when nothing has failed, nor anything that failed had an effect. */
  calmSinceMs = Number.POSITIVE_INFINITY;
  /** Since when no more faults happen. */
  faultsEndedAtMs = Number.POSITIVE_INFINITY;

  constructor(context: RefereeContext) {
    this.#context = context;
  }

  /** Whether a list that is requested at this time, and read by now, shows everything that was announced before (ADR 40). */
  isListCurrent(requestedAtMs: number): boolean {
    return !this.haveClockFaults && !this.#mayListingHaveFailed(requestedAtMs);
  }

  /** Then a list shows only what it showed before (ADR 40). */
  #mayListingHaveFailed(sinceMs: number): boolean {
    return this.#context.database.lastFailedListingMs >= sinceMs;
  }

  get haveClockFaults(): boolean {
    const { faults } = this.#context;
    return faults.has('clock steps') || faults.has('clock drift');
  }

  report(rule: string, text: string): void {
    const { history, scheduler } = this.#context;
    history.add('referee', () => `BROKEN: ${rule}: ${text}`);
    this.violations.push({ rule, atMs: scheduler.nowMs, text });
    if (this.stopsEarly) {
      scheduler.stopAtMs = scheduler.nowMs;
    }
  }

  isCalm(sinceMs: number): boolean {
    return sinceMs >= this.calmSinceMs;
  }

  /** A page of a recipient's list. */
  checkPage(pubkey: string, page: ListedPage): void {
    const { quotes, total, offset, since, requestedAtMs } = page;
    this.#checkTotal(pubkey, page);
    if (quotes.length !== Math.max(0, Math.min(50, total - offset))) {
      this.report('full pages', `${quotes.length} of ${total} from ${offset} for ${pubkey}`);
    }
    let previous = Number.POSITIVE_INFINITY;
    for (const [index, quote] of quotes.entries()) {
      const { quoteId, paidAt } = quote;
      // A payment half a second after `since` is later, although `paidAt` shows the same second.
      if (paidAt > previous || paidAt < (since ?? 0)) {
        this.report('newest first', `${quoteId} is at a wrong place of the list`);
      }
      previous = paidAt;
      if (this.#checkQuote(pubkey, quote, requestedAtMs) && since === null) {
        this.#checkPosition(pubkey, quoteId, total - offset - index);
      }
    }
  }

  /** Quotes that were requested by their ids. */
  checkFound(
    pubkey: string,
    quoteIds: readonly string[],
    quotes: readonly ListedQuote[],
    requestedAtMs: number,
  ): void {
    const missing = new Set(quoteIds);
    for (const quote of quotes) {
      if (!missing.delete(quote.quoteId)) {
        this.report('finds what was asked for', `${quote.quoteId} for ${pubkey}`);
      }
      this.#checkQuote(pubkey, quote, requestedAtMs);
    }
    for (const quoteId of missing) {
      if (this.#mustBeListed(quoteId, requestedAtMs)) {
        this.report('stays listed', `${quoteId} was listed or announced, and is not found`);
      }
    }
  }

  /** Every payment that a client has seen counts, and no payment counts that was not made. */
  #checkTotal(pubkey: string, { total, since, requestedAtMs }: ListedPage): void {
    let minimum = 0;
    let maximum = 0;
    for (const { quoteId } of this.#context.truth.paymentsOf(pubkey)) {
      const paidAt = this.#sightings.get(quoteId)?.paidAt ?? null;
      const sinceSeconds = since ?? -1;
      minimum += Number((paidAt ?? 0) > sinceSeconds && this.#mustBeListed(quoteId, requestedAtMs));
      maximum += Number(paidAt === null || paidAt >= sinceSeconds);
    }
    if (total < minimum || total > maximum) {
      const text = `${total} instead of ${minimum} to ${maximum} for ${pubkey}, since ${since}`;
      this.report('right total', text);
    }
  }

  #mustBeListed(quoteId: string, requestedAtMs: number): boolean {
    const { listedAtMs, announcedAtMs } = this.#sightings.get(quoteId) ?? createSighting();
    return (
      listedAtMs < requestedAtMs ||
      (announcedAtMs < requestedAtMs &&
        announcedAtMs + this.#getClockDelayMs(announcedAtMs) < requestedAtMs &&
        !this.#mayListingHaveFailed(requestedAtMs))
    );
  }

  /** Processes with different clocks disagree about which second it is, if they differ by up to five (ADR 40). */
  #getClockDelayMs(sinceMs: number): number {
    if (!this.haveClockFaults) {
      return 0;
    }
    return this.#context.health.isDisturbed(sinceMs - 1_000) ? 6_000 : 1_000;
  }

  /** The list only grows at its beginning, so a payment keeps its place, counted from the end. */
  #checkPosition(pubkey: string, quoteId: string, position: number): void {
    const sighting = this.#sightings.get(quoteId);
    const positions = this.#positions.getOrInsertComputed(pubkey, () => new Map());
    const other = positions.getOrInsert(position, quoteId);
    if (sighting !== undefined && (sighting.position ?? position) !== position) {
      this.report('constant order', `${quoteId} is at ${position}, was at ${sighting.position}`);
    } else if (other !== quoteId) {
      this.report('constant order', `${quoteId} is at ${position}, where ${other} was`);
    }
    if (sighting !== undefined) {
      sighting.position = position;
    }
  }

  /** Returns false if the quote does not belong in the list. */
  #checkQuote(pubkey: string, quote: ListedQuote, requestedAtMs: number): boolean {
    const { nowMs } = this.#context.scheduler;
    const { quoteId, paidAt, state } = quote;
    const payment = this.#context.truth.paymentsByQuoteId.get(quoteId);
    if (payment?.invoice.recipient.pubkey !== pubkey) {
      this.report('listed only if paid', `${quoteId} is listed for ${pubkey}`);
      return false;
    }
    this.#checkFields(payment, quote);
    payment.listedAtMs ??= nowMs;
    const sighting = this.#sightings.getOrInsertComputed(quoteId, createSighting);
    if ((sighting.paidAt ?? paidAt) !== paidAt) {
      this.report('paidAt is constant', `${quoteId}: ${sighting.paidAt}, then ${paidAt}`);
    }
    if (state === 'ISSUED') {
      sighting.issuedAtMs ??= nowMs;
    } else if (sighting.issuedAtMs !== null && sighting.issuedAtMs < requestedAtMs) {
      this.report('states go forward', `${quoteId} was ISSUED, and is ${state} again`);
    }
    sighting.paidAt = paidAt;
    sighting.listedAtMs = Math.min(sighting.listedAtMs, nowMs);
    return true;
  }

  #checkFields(payment: Payment, quote: ListedQuote): void {
    const { invoice, pendingAtMs, issuedAtMs, paidAtMs } = payment;
    const { mint, quoteId } = invoice;
    const atMint = mint.state.quotes.byId.get(quoteId);
    const nowSeconds = toUnixSeconds(this.#context.scheduler.nowMs);
    const isRight =
      quote.mintUrl === mint.url &&
      quote.amount === invoice.amountSat &&
      quote.request === invoice.request &&
      (atMint === undefined ||
        (quote.expiresAt === atMint.expiresAt && quote.locked === (atMint.pubkey !== null))) &&
      (quote.state !== 'INFLIGHT' || pendingAtMs !== null) &&
      (quote.state !== 'ISSUED' || issuedAtMs !== null);
    const areTimesRight =
      quote.createdAt >= toUnixSeconds(invoice.requestedAtMs) &&
      quote.createdAt <= toUnixSeconds(invoice.receivedAtMs) &&
      quote.paidAt >= toUnixSeconds(paidAtMs) &&
      quote.paidAt <= nowSeconds + 1;
    this.#checkDeadline(payment, quote);
    if (!isRight || !(areTimesRight || this.haveClockFaults)) {
      this.report('right fields', JSON.stringify(quote));
    }
  }

  /** A deadline is shown where the mint refuses expired quotes, and not where it is known to issue them. */
  #checkDeadline(
    { invoice }: Payment,
    { quoteId, state, expiresAt, collectBy }: ListedQuote,
  ): void {
    const { refusesAfterExpiry, version } = invoice.mint.switches;
    const { faults } = this.#context;
    // After impossible states, or if the clock is minutes ahead, it looks as if the mint had issued the quote later.
    const mayBeMissing =
      !refusesAfterExpiry ||
      faults.has('mint reports impossible states') ||
      faults.has('clock steps');
    // The database may have failed to store the version.
    const mayBeShown = !isKnownToIssueAfterExpiry(version) || faults.kinds.length > 0;
    const isRight =
      collectBy === undefined
        ? mayBeMissing || state === 'ISSUED'
        : mayBeShown && state !== 'ISSUED' && collectBy === expiresAt;
    if (!isRight) {
      this.report('right deadlines', `${quoteId} is ${state}, collectBy ${collectBy}`);
    }
  }

  checkUpdate(pubkey: string, quoteId: string): void {
    const { truth, scheduler } = this.#context;
    const payment = truth.paymentsByQuoteId.get(quoteId);
    if (payment?.invoice.recipient.pubkey !== pubkey) {
      this.report('updates only if paid', `${pubkey} got an update of ${quoteId}`);
      return;
    }
    const sighting = this.#sightings.getOrInsertComputed(quoteId, createSighting);
    sighting.announcedAtMs = Math.min(sighting.announcedAtMs, scheduler.nowMs);
  }

  /** @param sentAtMs when the client sent the request */
  checkVerify({ quoteId, payment }: Invoice, settled: boolean, sentAtMs: number): void {
    const { nowMs } = this.#context.scheduler;
    const settledAtMs = this.#settledAtMs.get(quoteId);
    if (settled) {
      this.#settledAtMs.set(quoteId, settledAtMs ?? nowMs);
      if (payment === null) {
        this.report('settled only if paid', quoteId);
      }
    } else if (payment === null || this.#mayBeInflight(payment, sentAtMs)) {
      return;
    } else if (settledAtMs !== undefined && settledAtMs < sentAtMs) {
      this.report('settled stays true', quoteId);
    } else if (this.isCalm(payment.paidAtMs)) {
      const dueAtMs = payment.paidAtMs + getNoticeMs(payment, 'paid');
      if (sentAtMs > dueAtMs && !isForgotten(payment, dueAtMs)) {
        this.report('settled soon', quoteId);
      }
    }
  }

  /** Whether the service may still believe what the mint reported while it issued the ecash: PENDING. */
  #mayBeInflight(payment: Payment, sentAtMs: number): boolean {
    const { quoteId, pendingAtMs, issuedAtMs } = payment;
    if (pendingAtMs === null || this.getListedAsIssuedMs(quoteId) < sentAtMs) {
      return false;
    }
    const dueAtMs =
      issuedAtMs !== null && this.isCalm(issuedAtMs)
        ? issuedAtMs + getNoticeMs(payment, 'issued')
        : getNoticeDeadlineMs(payment, 'issued', this.faultsEndedAtMs);
    return issuedAtMs === null || sentAtMs < dueAtMs || isForgotten(payment, dueAtMs);
  }

  /** A response to a wallet. */
  checkResponse(
    actor: Actor,
    { path }: ClientRequest,
    status: ClientResponse['status'],
    sentAtMs: number,
  ): void {
    const text = `${actor.name}: ${path} -> ${status}`;
    const isCalmList = this.isCalm(sentAtMs) && path.includes('/wallet/');
    if (status === 401 && !this.haveClockFaults) {
      this.report('valid credentials are accepted', text);
    } else if (isCalmList && status !== 200) {
      this.report('lists are available', text);
    } else if (isCalmList && this.#context.scheduler.nowMs - sentAtMs > PROMPT_RESPONSE_MS) {
      this.report('prompt responses', text);
    }
  }

  /** An invoice, as its payer received it. */
  checkInvoice({ recipient, mint, quoteId, requestedAtMs, receivedAtMs }: Invoice): void {
    const { truth } = this.#context;
    const delayMs = this.isCalm(requestedAtMs) ? SETTING_NOTICE_MS : MAX_SETTING_AGE_MS;
    const { pubkey: owner } = recipient;
    const { mints, locks } = truth.listSettings(owner, requestedAtMs, receivedAtMs, delayMs);
    const pubkey = mint.state.quotes.get(quoteId).pubkey;
    const isLockRight = pubkey === null || pubkey === `02${recipient.pubkey}`;
    if (!mints.includes(mint) || !locks.includes(pubkey !== null) || !isLockRight) {
      this.report('right mint and lock', `${quoteId} at ${mint.host}, lock ${pubkey}`);
    }
    const isLate = receivedAtMs - requestedAtMs > PROMPT_RESPONSE_MS;
    if (isLate && this.isCalm(requestedAtMs) && mint.switches.rateLimit === null) {
      this.report('prompt responses', `${quoteId} at ${mint.host}`);
    }
  }

  /** A payer got no invoice. */
  checkRefusal(pubkey: string, sentAtMs: number, text: string): void {
    const { truth, scheduler } = this.#context;
    if (sentAtMs < (truth.blockedUntilMs.get(pubkey) ?? 0)) {
      return;
    }
    const { mints } = truth.listSettings(pubkey, sentAtMs, scheduler.nowMs, MAX_SETTING_AGE_MS);
    if (this.isCalm(sentAtMs) && mints.every((mint) => mint?.switches.rateLimit === null)) {
      this.report('payers get invoices', text);
    }
  }

  /** Returns the `paidAt` that clients saw; -1 if they saw none. */
  getPaidAt(quoteId: string): number {
    return this.#sightings.get(quoteId)?.paidAt ?? -1;
  }

  isListed(quoteId: string): boolean {
    return this.getPaidAt(quoteId) !== -1;
  }

  /** When a client first saw it as ISSUED. */
  getListedAsIssuedMs(quoteId: string): number {
    return this.#sightings.get(quoteId)?.issuedAtMs ?? Number.POSITIVE_INFINITY;
  }
}

/** How long lists, and invoices of mints without a rate limit, take at most if nothing fails. */
const PROMPT_RESPONSE_MS = 3_000;

/** Until a notification has removed a setting from the caches of all processes. */
const SETTING_NOTICE_MS = 500;

/** Processes remember a recipient for five seconds if the notification is lost, and a change takes a moment. */
const MAX_SETTING_AGE_MS = 6_000;

function createSighting(): Sighting {
  const never = Number.POSITIVE_INFINITY;
  return {
    paidAt: null,
    listedAtMs: never,
    announcedAtMs: never,
    position: null,
    issuedAtMs: null,
  };
}
