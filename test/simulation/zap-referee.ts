import type { Event } from 'nostr-tools';
import { verifyEvent } from 'nostr-tools/wasm';
import type { FaultPlan } from './faults.ts';
import type { Referee } from './referee.ts';
import type { Scheduler } from './scheduler.ts';
import type { SimulatedMint } from './simulated-mint.ts';
import type { SimulatedRelay } from './simulated-relay.ts';
import type { Invoice } from './truth.ts';
import { toUnixSeconds } from './virtual-platform.ts';
import { ZAP_PUBKEY, type ZapRequest, type ZapSettings } from './zap-requests.ts';

interface Receipt {
  event: Event;
  json: string;
  invoice: ZapInvoice;
}

type ZapInvoice = Invoice & { zapRequest: ZapRequest };

interface ZapRefereeContext {
  scheduler: Scheduler;
  faults: FaultPlan;
  referee: Referee;
  settings: ZapSettings;
}

/** Compares the receipts that relays get with the zaps that were paid. */
export class ZapReferee {
  readonly #context: ZapRefereeContext;
  readonly #clocksMayDiffer: boolean;
  readonly #invoices = new Map<string, ZapInvoice>();
  /** By invoice. */
  readonly #receipts = new Map<string, Receipt>();
  readonly #receiptsByZapRequest = new Map<string, Receipt>();

  constructor(context: ZapRefereeContext) {
    this.#context = context;
    const { faults } = context;
    this.#clocksMayDiffer = faults.has('clock steps') || faults.has('clock drift');
  }

  checkInvoice(invoice: Invoice): void {
    const { zapRequest, request, mint } = invoice;
    if (zapRequest === null) {
      return;
    }
    this.#invoices.set(request, invoice as ZapInvoice);
    const { flaw } = zapRequest;
    if (flaw !== null && flaw !== 'other recipient' && this.#isTrusted(mint)) {
      this.#report('no invoice for an invalid zap request', `${zapRequest.id} has a ${flaw}`);
    }
  }

  checkRejection({ id, flaw }: ZapRequest, reason: string): void {
    if (flaw === null && !this.#clocksMayDiffer) {
      this.#report('valid zap requests are accepted', `${id}: ${reason}`);
    }
  }

  /** An event that arrived at a relay. */
  checkEvent(relay: SimulatedRelay, json: string): void {
    const event = JSON.parse(json) as Event;
    const [, request = ''] = event.tags.find(([name]) => name === 'bolt11') ?? [];
    const invoice = this.#invoices.get(request);
    if (invoice === undefined || !this.#deservesReceipt(invoice)) {
      this.#report('receipts only for paid zaps', json);
      return;
    }
    if (!this.#listRelays(invoice).includes(relay)) {
      this.#report('receipts only at named relays', `${event.id} at ${relay.url}`);
    }
    const earlier = this.#receipts.get(request);
    if (earlier !== undefined) {
      if (earlier.json !== json) {
        this.#report('one receipt per zap', `${earlier.json}, then ${json}`);
      }
      return;
    }
    if (this.#receiptsByZapRequest.has(invoice.zapRequest.id)) {
      this.#report('one receipt per zap request', json);
    }
    const receipt = { event, json, invoice };
    this.#receipts.set(request, receipt);
    this.#receiptsByZapRequest.set(invoice.zapRequest.id, receipt);
    this.#checkReceipt(receipt);
  }

  /** Whether each zap has its receipt, and each relay has all receipts. */
  isComplete(): boolean {
    const receipts = [...this.#receipts.values()];
    return (
      this.#findZapsWithoutReceipt().length === 0 &&
      receipts.every((receipt) => this.#findRelaysWithout(receipt).length === 0)
    );
  }

  /**
   * When the last relay must be in use again. The pauses after failures double, so the last one is about as long as the
   * time in which a relay failed, up to four hours, and at least a minute. For a minute, connections may fail that broke before. If clocks
   * differ, pauses last longer for one process and less long for another.
   */
  computeRetryMs(faultsEndedAtMs: number): number {
    const clockErrorMs = this.#clocksMayDiffer ? 300_000 : 0;
    const fromMs = faultsEndedAtMs + 60_000 + clockErrorMs;
    return Math.min(2 * fromMs, fromMs + MAX_PAUSE_MS) + 60_000;
  }

  /** Checks at the end what must be there. */
  checkEnd(faultsEndedAtMs: number): void {
    const { scheduler, referee } = this.#context;
    const retryMs = this.computeRetryMs(faultsEndedAtMs);
    const isOverdue = ({ payment }: Invoice, atMs: number) =>
      payment?.listedAtMs != null && atMs > Math.max(payment.listedAtMs, retryMs) + 60_000;
    for (const invoice of this.#findZapsWithoutReceipt()) {
      if (isOverdue(invoice, scheduler.nowMs)) {
        this.#report('each zap has a receipt', `${invoice.quoteId} has none`);
      }
    }
    for (const { event, invoice } of this.#receipts.values()) {
      for (const relay of this.#listRelays(invoice)) {
        const atMs = relay.storedAtMs.get(event.id) ?? scheduler.nowMs;
        if (!relay.refusedIds.has(event.id) && isOverdue(invoice, atMs)) {
          this.#report(
            'receipts at all relays',
            `${event.id} of ${invoice.quoteId} is late at ${relay.url}`,
          );
        }
      }
      const paidAt = referee.getPaidAt(invoice.payment?.quoteId ?? '');
      const isDated = this.#clocksMayDiffer
        ? event.created_at <= paidAt
        : event.created_at === paidAt;
      if (paidAt > 0 && !isDated) {
        const text = `${event.id} of ${invoice.quoteId} is of ${event.created_at}, and paidAt is ${paidAt}`;
        this.#report('receipts have the time of the payment', text);
      }
    }
    this.#checkLimit();
  }

  #checkReceipt({ event, json, invoice }: Receipt): void {
    const { zapRequest, recipient, request, payment } = invoice;
    const { eventId, sender } = zapRequest;
    const expectedTags = [
      ['p', recipient.pubkey],
      ...(eventId === null ? [] : [['e', eventId]]),
      ['P', sender],
      ['bolt11', request],
      ['description', zapRequest.json],
    ];
    const isRight =
      event.kind === 9_735 &&
      event.pubkey === ZAP_PUBKEY &&
      JSON.stringify(event.tags) === JSON.stringify(expectedTags) &&
      (this.#clocksMayDiffer || event.created_at >= toUnixSeconds(payment?.paidAtMs ?? 0)) &&
      verifyEvent(event);
    if (!isRight) {
      this.#report('right receipts', json);
    }
  }

  /** Of each recipient, as many receipts in any hour as the operator allows. */
  #checkLimit(): void {
    const { maxReceiptsPerHour: limit } = this.#context.settings;
    if (limit === null || this.#clocksMayDiffer) {
      return;
    }
    const receipts = [...this.#receipts.values()];
    const byRecipient = Map.groupBy(receipts, ({ invoice }) => invoice.recipient.pubkey);
    for (const [pubkey, ofRecipient] of byRecipient) {
      const times = ofRecipient.map(({ event }) => event.created_at).sort((a, b) => a - b);
      // A payment may be dated some seconds after it is recorded.
      if (times.some((time, index) => (times[index + limit] ?? Infinity) - time < 3_590)) {
        this.#report('receipts within the limit', pubkey);
      }
    }
  }

  /** Only one of several invoices with the same zap request gets a receipt. */
  #findZapsWithoutReceipt(): ZapInvoice[] {
    return [...this.#invoices.values()].filter(
      (invoice) =>
        this.#deservesReceipt(invoice) &&
        !this.#receiptsByZapRequest.has(invoice.zapRequest.id) &&
        !this.#isLimitReached(invoice),
    );
  }

  /** Whether the recipient got as many receipts in the hour before the payment as the operator allows. */
  #isLimitReached({ recipient, payment }: ZapInvoice): boolean {
    const paidAt = this.#context.referee.getPaidAt(payment?.quoteId ?? '');
    const recent = [...this.#receipts.values()].filter(({ event, invoice }) => {
      const ageSeconds = paidAt - event.created_at;
      // A payment may be dated some seconds after it is recorded.
      const isOfLastHour = ageSeconds > -10 && ageSeconds < 3_610;
      return (
        invoice.recipient.pubkey === recipient.pubkey && (isOfLastHour || this.#clocksMayDiffer)
      );
    });
    return recent.length >= (this.#context.settings.maxReceiptsPerHour ?? Number.POSITIVE_INFINITY);
  }

  #findRelaysWithout({ event, invoice }: Receipt): SimulatedRelay[] {
    return this.#listRelays(invoice).filter(
      ({ storedAtMs, refusedIds }) => !storedAtMs.has(event.id) && !refusedIds.has(event.id),
    );
  }

  #listRelays({ zapRequest }: ZapInvoice): SimulatedRelay[] {
    return [...new Set([...this.#context.settings.operatorRelays, ...zapRequest.relays])];
  }

  #deservesReceipt({ zapRequest, mint, payment }: ZapInvoice): boolean {
    return zapRequest.flaw === null && payment !== null && this.#isTrusted(mint);
  }

  #isTrusted(mint: SimulatedMint): boolean {
    return this.#context.settings.mints?.includes(mint) ?? true;
  }

  #report(rule: string, text: string): void {
    this.#context.referee.report(rule, text);
  }
}

/** Between two attempts to deliver a receipt. */
const MAX_PAUSE_MS = 4 * 3_600_000;
