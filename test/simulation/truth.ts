import type { NostrKey } from './recipients.ts';
import type { Scheduler } from './scheduler.ts';
import type { SimulatedMint } from './simulated-mint.ts';
import type { ZapRequest } from './zap-requests.ts';

/** What really happened. Only actors outside the service write it, so it shares no code with the service. */
export interface Invoice {
  /** `payer-12`, or `same-payer-12`, who uses the zap request of `payer-12` again. */
  payer: string;
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
  /** Whether nothing failed around it, so that everything about it had to be prompt. */
  wasHealthy: boolean;
}

/** A setting of a recipient, from when a wallet requested it. */
interface Setting {
  requestedAtMs: number;
  mint?: SimulatedMint;
  isLocking?: boolean;
}

/** Null: not confirmed yet, so that it may become valid at any time. */
type Requested<T> = T & { confirmedAtMs: number | null };

export class Truth {
  readonly invoices: Invoice[] = [];
  /** Words that no log line may contain, besides quote ids. */
  readonly secrets = new Set<string>();
  /** Until when recipients that the operator blocks may get no invoices. */
  readonly blockedUntilMs = new Map<string, number>();
  readonly paymentsByQuoteId = new Map<string, Payment>();
  readonly paymentsByPubkey = new Map<string, Payment[]>();
  readonly #settingsByPubkey = new Map<string, Requested<Setting>[]>();
  /** The default mints after the first, in the order in which the operator chose them. */
  readonly #defaults: Requested<Setting>[] = [];
  readonly #mints: readonly SimulatedMint[];

  /** @param mints the first default mint first */
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

  /** @param secret short words in it are ignored */
  addSecret(secret: string): void {
    for (const [word] of secret.matchAll(LONG_WORDS)) {
      this.secrets.add(word);
    }
  }

  addPayment(invoice: Invoice, paidAtMs: number): Payment {
    const { quoteId, recipient } = invoice;
    const unknown = { pendingAtMs: null, issuedAtMs: null, listedAtMs: null, wasHealthy: false };
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
    return addRequested(
      this.#settingsByPubkey.getOrInsertComputed(pubkey, () => []),
      setting,
    );
  }

  /** Records that the operator chooses a default mint. @returns a function to call when all processes use it */
  addDefaultMint(mint: SimulatedMint, requestedAtMs: number): (confirmedAtMs: number) => void {
    return addRequested(this.#defaults, { mint, requestedAtMs });
  }

  /**
   * The mints and locks that an invoice may have whose payer asked for it in this period.
   *
   * @param delayMs until all processes use a confirmed setting
   */
  listSettings(pubkey: string, fromMs: number, untilMs: number, delayMs: number) {
    const listPossible = <Value>(
      initial: readonly Value[],
      all: readonly Requested<Setting>[],
      getValue: (setting: Setting) => Value | undefined,
    ) => {
      const settings = all.filter(
        (setting) => setting.requestedAtMs <= untilMs && getValue(setting) !== undefined,
      );
      const lastCertain = settings.findLastIndex(
        ({ confirmedAtMs }) => confirmedAtMs !== null && confirmedAtMs + delayMs < fromMs,
      );
      // A request without a response may be executed at any time.
      const possible = settings.filter(
        ({ confirmedAtMs }, index) => index >= lastCertain || confirmedAtMs === null,
      );
      return [...(lastCertain === -1 ? initial : []), ...possible.map(getValue)];
    };
    const chosen = this.#settingsByPubkey.get(pubkey) ?? [];
    const getMint = ({ mint }: Setting) => mint;
    return {
      mints: listPossible(listPossible([this.#mints[0]], this.#defaults, getMint), chosen, getMint),
      locks: listPossible([false], chosen, ({ isLocking }) => isLocking),
    };
  }
}

/** Ids and secrets in a text. */
export const LONG_WORDS = /[\w-]{20,}/g;

function addRequested<T>(list: Requested<T>[], value: T): (confirmedAtMs: number) => void {
  const added = { ...value, confirmedAtMs: null as number | null };
  list.push(added);
  return (confirmedAtMs) => {
    added.confirmedAtMs = confirmedAtMs;
  };
}

/** Whether the mint deleted the quote before the service had to know about the payment. */
export function isForgotten({ invoice, quoteId }: Payment, deadlineMs: number): boolean {
  return (invoice.mint.deletedAtMs.get(quoteId) ?? Number.POSITIVE_INFINITY) < deadlineMs;
}
