import type { TestMint } from '../../../demo/test-mint.ts';
import { TestWallet } from '../../helpers/wallet.ts';
import type { Site } from '../site.ts';
import type { Mints } from './mints.ts';

export interface Recipient {
  index: number;
  wallet: TestWallet;
  mint: TestMint;
}

export interface HeldInvoice {
  /** Of the plan, for messages: quote ids are secrets. */
  number: number;
  recipient: Recipient;
  amountSat: number;
  request: string;
  verifyPath: string;
  payment: Payment | null;
}

export interface Payment {
  invoice: HeldInvoice;
  quoteId: string;
  /** Just before its mint received it; milliseconds since 1970, as all times here. */
  paidAtMs: number;
}

const RECIPIENTS = 40;

/** Every fifth recipient has locked quotes (NUT-20). */
const RECIPIENTS_PER_LOCKED = 5;

/** What really happened, with which the service is compared. */
export class Truth {
  readonly mints: Mints;
  readonly recipients: readonly Recipient[];
  readonly invoices: HeldInvoice[] = [];
  readonly #payments = new Map<string, Payment>();

  static async open(mints: Mints, site: Site): Promise<Truth> {
    const origin = site.processes[0]?.origin ?? '';
    const recipients = Array.from({ length: RECIPIENTS }, async (_, index) => {
      const wallet = new TestWallet(origin);
      const mint = mints.of(index);
      await change(wallet, '/api/v2/user/mint', { mint_url: mint.url });
      const lockQuotes = index % RECIPIENTS_PER_LOCKED === 1;
      await change(wallet, '/api/v2/user/lock', { lockQuotes });
      return { index, wallet, mint };
    });
    return new Truth(mints, await Promise.all(recipients));
  }

  private constructor(mints: Mints, recipients: readonly Recipient[]) {
    this.mints = mints;
    this.recipients = recipients;
  }

  get payments(): Payment[] {
    return [...this.#payments.values()];
  }

  paymentsTo(recipient: Recipient): Payment[] {
    return this.payments.filter(({ invoice }) => invoice.recipient === recipient);
  }

  payment(quoteId: string): Payment | undefined {
    return this.#payments.get(quoteId);
  }

  /** Pays an invoice at its mint. @throws if the mint has no such unpaid invoice */
  pay(invoice: HeldInvoice): Payment {
    const paidAtMs = Date.now();
    const { id: quoteId } = invoice.recipient.mint.pay(invoice.request);
    const payment = { invoice, quoteId, paidAtMs };
    invoice.payment = payment;
    this.#payments.set(quoteId, payment);
    return payment;
  }
}

export function describePayment({ invoice, paidAtMs }: Payment): string {
  const { number, recipient } = invoice;
  const at = new Date(paidAtMs).toISOString();
  return `payment ${number} (to recipient ${recipient.index}, paid at ${at})`;
}

async function change(wallet: TestWallet, path: string, body: object): Promise<void> {
  const { status } = await wallet.send('PATCH', path, body);
  if (status !== 200) {
    throw new Error(`${path} returned ${status} before the storm began`);
  }
}
