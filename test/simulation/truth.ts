import type { NostrKey } from './recipients.ts';
import type { SimulatedMint } from './simulated-mint.ts';
import type { ZapRequest } from './zap-requests.ts';

/** What really happened. Only actors outside the service write it, so it shares no code with the service. */
export interface Invoice {
  number: number;
  recipient: NostrKey;
  mint: SimulatedMint;
  amountSat: number;
  request: string;
  verifyPath: string;
  zapRequest: ZapRequest | null;
  payment: Payment | null;
}

export interface Payment {
  invoice: Invoice;
  quoteId: string;
  /** Virtual milliseconds. */
  paidAtMs: number;
  /** When a client first saw it; null: not yet. */
  listedAtMs: number | null;
}

export class Truth {
  readonly invoices: Invoice[] = [];
  /** What no log line may contain, besides quote ids. */
  readonly secrets = new Set<string>();
  readonly paymentsByQuoteId = new Map<string, Payment>();
  readonly paymentsByPubkey = new Map<string, Payment[]>();

  addPayment(payment: Payment): void {
    const { invoice, quoteId } = payment;
    const { pubkey } = invoice.recipient;
    invoice.payment = payment;
    this.paymentsByQuoteId.set(quoteId, payment);
    this.paymentsByPubkey.set(pubkey, [...this.paymentsOf(pubkey), payment]);
  }

  paymentsOf(pubkey: string): Payment[] {
    return this.paymentsByPubkey.get(pubkey) ?? [];
  }
}
