import type { TestWallet } from '../helpers/wallet.ts';
import type { Mints, NamedMint } from './mints.ts';

/** Somebody who is paid. */
export interface Recipient {
  index: number;
  wallet: TestWallet;
  mint: NamedMint;
}

/** An invoice that a payer holds. */
export interface HeldInvoice {
  /** Of the plan, for messages: the ids of quotes are secrets. */
  number: number;
  recipient: Recipient;
  amountSat: number;
  /** BOLT 11. */
  request: string;
  /** The path of its verify url. */
  verifyPath: string;
  payment: Payment | null;
}

/** What a mint got. */
export interface Payment {
  invoice: HeldInvoice;
  quoteId: string;
  /** The moment before its mint had it; milliseconds since 1970, as all times here. */
  paidAtMs: number;
}

/** All that really happened, against which the service is held. */
export class Truth {
  readonly mints: Mints;
  readonly recipients: readonly Recipient[];
  readonly invoices: HeldInvoice[] = [];
  readonly #payments = new Map<string, Payment>();
  readonly #paymentsTo = new Map<Recipient, Payment[]>();

  constructor(mints: Mints, recipients: readonly Recipient[]) {
    this.mints = mints;
    this.recipients = recipients;
  }

  get payments(): Payment[] {
    return [...this.#payments.values()];
  }

  paymentsTo(recipient: Recipient): readonly Payment[] {
    return this.#paymentsTo.get(recipient) ?? [];
  }

  /** Undefined where nobody has paid such a quote. */
  payment(quoteId: string): Payment | undefined {
    return this.#payments.get(quoteId);
  }

  /**
   * Pays an invoice at its mint.
   *
   * @throws where the mint has no such unpaid invoice
   */
  pay(invoice: HeldInvoice): Payment {
    const paidAtMs = Date.now();
    const { id: quoteId } = invoice.recipient.mint.mint.pay(invoice.request);
    const payment = { invoice, quoteId, paidAtMs };
    invoice.payment = payment;
    this.#payments.set(quoteId, payment);
    this.#paymentsTo.set(invoice.recipient, [...this.paymentsTo(invoice.recipient), payment]);
    return payment;
  }
}

/** How messages speak of a payment. */
export function describePayment({ invoice, paidAtMs }: Payment): string {
  const { number, recipient, amountSat } = invoice;
  const at = new Date(paidAtMs).toISOString();
  return `payment ${number} (${amountSat} sat to recipient ${recipient.index}, mint ${recipient.mint.name}, paid at ${at})`;
}
