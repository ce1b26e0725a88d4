import type { NostrKey } from './recipients.ts';
import type { Scheduler } from './scheduler.ts';
import type { SimulatedMint } from './simulated-mint.ts';
import type { ZapRequest } from './zap-requests.ts';

/** What really happened. Only actors outside the service write it, so it shares no code with the service. */
export interface Invoice {
  number: number;
  recipient: NostrKey;
  mint: SimulatedMint;
  amountSat: number;
  request: string;
  quoteId: string;
  verifyPath: string;
  zapRequest: ZapRequest | null;
  /** When the payer sent the request, and received the invoice. All times are virtual milliseconds. */
  requestedAtMs: number;
  receivedAtMs: number;
  payment: Payment | null;
}

export interface Payment {
  invoice: Invoice;
  quoteId: string;
  paidAtMs: number;
  /** When the mint began to issue the ecash, if it reports that. */
  pendingAtMs: number | null;
  /** When a wallet got the ecash. */
  issuedAtMs: number | null;
  /** When a client first saw it; null: not yet. */
  listedAtMs: number | null;
}

/** A setting of a recipient, from when a wallet requested it. */
interface Setting {
  requestedAtMs: number;
  mint?: SimulatedMint;
  isLocking?: boolean;
}

export class Truth {
  readonly invoices: Invoice[] = [];
  /** What no log line may contain, besides quote ids. */
  readonly secrets = new Set<string>();
  /** Recipients that the operator has blocked at times. */
  readonly blockedPubkeys = new Set<string>();
  readonly paymentsByQuoteId = new Map<string, Payment>();
  readonly paymentsByPubkey = new Map<string, Payment[]>();
  readonly #settingsByPubkey = new Map<string, (Setting & { confirmedAtMs: number | null })[]>();
  readonly #mints: readonly SimulatedMint[];

  /** @param mints the default mint first */
  constructor(scheduler: Scheduler, mints: readonly SimulatedMint[]) {
    this.#mints = mints;
    for (const mint of mints) {
      mint.state.quotes.onStateChange(({ id, state }) => {
        const payment = this.paymentsByQuoteId.get(id);
        if (payment !== undefined && state === 'PENDING') {
          payment.pendingAtMs = scheduler.nowMs;
        } else if (payment !== undefined && state === 'ISSUED') {
          payment.issuedAtMs = scheduler.nowMs;
        }
      });
    }
  }

  findInvoice(request: string): { mint: SimulatedMint; quoteId: string } | null {
    for (const mint of this.#mints) {
      const quote = mint.state.quotes.findByRequest(request);
      if (quote !== undefined) {
        return { mint, quoteId: quote.id };
      }
    }
    return null;
  }

  addPayment(invoice: Invoice, paidAtMs: number): Payment {
    const { quoteId, recipient } = invoice;
    const unknown = { pendingAtMs: null, issuedAtMs: null, listedAtMs: null };
    const payment = { invoice, quoteId, paidAtMs, ...unknown };
    invoice.payment = payment;
    this.paymentsByQuoteId.set(quoteId, payment);
    this.paymentsByPubkey.getOrInsertComputed(recipient.pubkey, () => []).push(payment);
    return payment;
  }

  paymentsOf(pubkey: string): readonly Payment[] {
    return this.paymentsByPubkey.get(pubkey) ?? [];
  }

  /** Records that a wallet requests a setting. @returns a function to call when the service has confirmed it */
  addSetting(pubkey: string, setting: Setting): (confirmedAtMs: number) => void {
    const added = { ...setting, confirmedAtMs: null as number | null };
    this.#settingsByPubkey.getOrInsertComputed(pubkey, () => []).push(added);
    return (confirmedAtMs) => {
      added.confirmedAtMs = confirmedAtMs;
    };
  }

  /**
   * The mints and locks that an invoice may have whose payer asked for it in this period.
   *
   * @param delayMs until all processes use a confirmed setting
   */
  listSettings(pubkey: string, fromMs: number, untilMs: number, delayMs: number) {
    const requested = (this.#settingsByPubkey.get(pubkey) ?? []).filter(
      ({ requestedAtMs }) => requestedAtMs <= untilMs,
    );
    const listPossible = <Value>(
      initial: Value,
      getValue: (setting: Setting) => Value | undefined,
    ) => {
      const settings = requested.filter((setting) => getValue(setting) !== undefined);
      const lastCertain = settings.findLastIndex(
        ({ confirmedAtMs }) => confirmedAtMs !== null && confirmedAtMs + delayMs < fromMs,
      );
      // A request without a response may be executed at any time.
      const possible = settings.filter(
        ({ confirmedAtMs }, index) => index >= lastCertain || confirmedAtMs === null,
      );
      return [...(lastCertain === -1 ? [initial] : []), ...possible.map(getValue)];
    };
    return {
      mints: listPossible(this.#mints[0], ({ mint }) => mint),
      locks: listPossible(false, ({ isLocking }) => isLocking),
    };
  }
}

/** Whether the mint has deleted the quote, so that the service can no longer find out about the payment. */
export function isForgotten({ invoice, quoteId }: Payment): boolean {
  return !invoice.mint.state.quotes.byId.has(quoteId);
}
