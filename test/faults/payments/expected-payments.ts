import type { TestMint } from '../../../demo/test-mint.ts';
import { RecipientClient } from '../../helpers/recipients/recipient-client.ts';
import type { FaultyMints } from './faulty-mints.ts';

export type Mints = Pick<FaultyMints, 'mintOf' | 'quote'>;

export interface Recipient {
  index: number;
  wallet: RecipientClient;
  mint: TestMint;
}

export interface IssuedInvoice {
  /** Number of the payer. It identifies the payment in messages, because quote ids are secret. */
  number: number;
  recipient: Recipient;
  amountSat: number;
  request: string;
  verifyPath: string;
  payment: Payment | null;
}

export interface Payment {
  invoice: IssuedInvoice;
  quoteId: string;
  /** Time just before the mint received the payment, in milliseconds since 1970. */
  paidAtMs: number;
  /** Time just before the recipient redeemed the payment; null before that. */
  redeemedAtMs: number | null;
}

const RECIPIENT_COUNT = 40;

/** One in this many recipients has locked quotes (NUT-20). */
const RECIPIENTS_PER_LOCKED_RECIPIENT = 5;

export class ExpectedPayments {
  readonly mints: Mints;
  readonly recipients: readonly Recipient[];
  readonly invoices: IssuedInvoice[] = [];
  readonly #paymentsByQuoteId = new Map<string, Payment>();

  /** @param origin where the recipients change their settings */
  static async create(mints: Mints, origin: string): Promise<ExpectedPayments> {
    const recipients = Array.from({ length: RECIPIENT_COUNT }, async (_, index) => {
      const wallet = new RecipientClient(origin);
      const mint = mints.mintOf(index);
      await changeSetting(wallet, '/api/v2/user/mint', { mint_url: mint.url });
      const lockQuotes = index % RECIPIENTS_PER_LOCKED_RECIPIENT === 1;
      await changeSetting(wallet, '/api/v2/user/lock', { lockQuotes });
      return { index, wallet, mint };
    });
    return new ExpectedPayments(mints, await Promise.all(recipients));
  }

  private constructor(mints: Mints, recipients: readonly Recipient[]) {
    this.mints = mints;
    this.recipients = recipients;
  }

  get payments(): Payment[] {
    return [...this.#paymentsByQuoteId.values()];
  }

  paymentsOf(recipient: Recipient): Payment[] {
    return this.payments.filter(({ invoice }) => invoice.recipient === recipient);
  }

  payment(quoteId: string): Payment | undefined {
    return this.#paymentsByQuoteId.get(quoteId);
  }

  /** Pays an invoice at its mint. @throws Error if the mint has no such unpaid invoice */
  pay(invoice: IssuedInvoice): Payment {
    const paidAtMs = Date.now();
    const { id: quoteId } = invoice.recipient.mint.pay(invoice.request);
    const payment: Payment = { invoice, quoteId, paidAtMs, redeemedAtMs: null };
    invoice.payment = payment;
    this.#paymentsByQuoteId.set(quoteId, payment);
    return payment;
  }
}

export function describePayment({ invoice, paidAtMs }: Payment): string {
  const { number, recipient } = invoice;
  const at = new Date(paidAtMs).toISOString();
  return `payment ${number} (to recipient ${recipient.index}, paid at ${at})`;
}

async function changeSetting(wallet: RecipientClient, path: string, body: object): Promise<void> {
  const send = () => wallet.send('PATCH', path, body);
  // A proxy may close an idle connection just when it is used again. The change is idempotent.
  const { status } = await send().catch(send);
  if (status !== 200) {
    throw new Error(`${path} returned ${status}`);
  }
}
