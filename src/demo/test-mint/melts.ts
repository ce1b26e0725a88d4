import { randomBytes, randomUUIDv7 } from 'node:crypto';
import {
  type Input,
  type Output,
  type OutputSignature,
  type Reservation,
  sumOfAmounts,
  type TestMintLedger,
} from './ledger.ts';
import type { MeltOrder } from './melt-order.ts';
import type { TestMintQuote, TestMintQuotes } from './quotes.ts';
import { MintRefusal } from './refusal.ts';
import { refuseUnmetConditions } from './spending-conditions.ts';
import type { TestMintSwitches } from './switches.ts';

/** A melt quote as this mint keeps it (NUT-05, NUT-23). */
export interface TestMintMeltQuote {
  readonly id: string;
  /** The BOLT 11 invoice to be paid. */
  readonly request: string;
  readonly amountSat: number;
  readonly feeReserveSat: number;
  /** Unix seconds, of the invoice. */
  readonly expiresAt: number;
  readonly state: 'UNPAID' | 'PENDING' | 'PAID';
  /** 32 bytes in hex, made up: there is no Lightning network. Null until paid, and where internal. */
  readonly preimage: string | null;
  /** What came back of the fee reserve (NUT-08); null until paid. */
  readonly change: readonly OutputSignature[] | null;
}

/** What a wallet gives for a payment. */
export interface MeltPayment {
  quoteId: string;
  inputs: Input[];
  /** To be signed for what is left of the fee reserve (NUT-08). */
  blanks: Output[];
}

/** What melting needs of the mint. */
interface Melting {
  ledger: TestMintLedger;
  quotes: TestMintQuotes;
  switches: TestMintSwitches;
  /** Milliseconds since 1970. */
  now: () => number;
}

/** A payment under way. */
interface PendingMelt {
  reservation: Reservation;
  /** What the inputs are worth above the amount and their own fee. */
  feeProvidedSat: number;
}

/** All melt quotes of the mint, and their payments. */
export class TestMintMelts {
  readonly #melting: Melting;
  readonly #byId = new Map<string, TestMintMeltQuote>();
  readonly #pending = new Map<string, PendingMelt>();

  constructor(melting: Melting) {
    this.#melting = melting;
  }

  get byId(): ReadonlyMap<string, TestMintMeltQuote> {
    return this.#byId;
  }

  /** Makes a quote. One for an invoice of this mint itself asks for no reserve, as at Nutshell. */
  create({ request, amountSat, expiresAt }: MeltOrder): TestMintMeltQuote {
    const { quotes, switches } = this.#melting;
    const mintQuote = quotes.findByRequest(request);
    const isNutshell = switches.style === 'nutshell';
    if (isNutshell) {
      this.#refuseSettledInvoice(request);
      if (mintQuote !== undefined && mintQuote.state !== 'UNPAID') {
        throw new MintRefusal({ kind: 'mint_quote_paid' });
      }
    }
    const quote: TestMintMeltQuote = {
      id: randomUUIDv7(),
      request,
      amountSat,
      feeReserveSat: mintQuote !== undefined && isNutshell ? 0 : switches.meltFeeReserveSat,
      expiresAt,
      state: 'UNPAID',
      preimage: null,
      change: null,
    };
    this.#byId.set(quote.id, quote);
    return quote;
  }

  /** The quote as it is now; refuses where there is none. */
  get(id: string): TestMintMeltQuote {
    const quote = this.#byId.get(id);
    if (quote === undefined) {
      throw new MintRefusal({ kind: 'unknown_quote' });
    }
    return quote;
  }

  /** Pays a quote with proofs, or tries to; answers the quote as it is then. */
  melt(payment: MeltPayment): TestMintMeltQuote {
    const quote = this.get(payment.quoteId);
    const pending = this.#reserve(quote, payment);
    this.#pending.set(quote.id, pending);
    this.#change(quote.id, { state: 'PENDING' });
    const mintQuote = this.#melting.quotes.findByRequest(quote.request);
    if (mintQuote !== undefined) {
      return this.#payInternally(quote.id, mintQuote);
    }
    switch (this.#outcome(quote)) {
      case 'paid':
        return this.settle(quote.id, 'paid');
      case 'failed':
        this.settle(quote.id, 'failed');
        throw new MintRefusal({ kind: 'payment_failed' });
      case 'pending':
        return this.get(quote.id);
    }
  }

  /**
   * Ends a payment that is PENDING: it was made, or it failed for good.
   *
   * @throws where the quote is not PENDING
   */
  settle(quoteId: string, outcome: 'paid' | 'failed'): TestMintMeltQuote {
    if (outcome === 'failed') {
      this.#melting.ledger.release(this.#takePending(quoteId).reservation);
      return this.#change(quoteId, { state: 'UNPAID' });
    }
    const { feeReserveSat } = this.get(quoteId);
    // A Lightning node is told how much it may pay.
    const feeSat = Math.min(this.#melting.switches.meltFeeSat, feeReserveSat);
    return this.#setPaid(quoteId, feeSat, randomBytes(32).toString('hex'));
  }

  /** What a Lightning node says; it never pays an expired invoice, and the mints leave that to it. */
  #outcome({ expiresAt }: TestMintMeltQuote): TestMintSwitches['meltPayment'] {
    const { switches, now } = this.#melting;
    return now() > expiresAt * 1000 ? 'failed' : switches.meltPayment;
  }

  #payInternally(quoteId: string, mintQuote: TestMintQuote): TestMintMeltQuote {
    if (mintQuote.state !== 'UNPAID') {
      this.settle(quoteId, 'failed');
      throw new MintRefusal({ kind: 'mint_quote_paid' });
    }
    this.#melting.quotes.setState(mintQuote.id, 'PAID');
    return this.#setPaid(quoteId, 0, null);
  }

  #setPaid(quoteId: string, feeSat: number, preimage: string | null): TestMintMeltQuote {
    const { reservation, feeProvidedSat } = this.#takePending(quoteId);
    const outputs = changeOutputs(feeProvidedSat - feeSat, reservation.outputs);
    const change = this.#melting.ledger.commit(reservation, outputs);
    return this.#change(quoteId, { state: 'PAID', preimage, change });
  }

  /** The two mints look at the same things in another order. */
  #reserve(quote: TestMintMeltQuote, payment: MeltPayment): PendingMelt {
    const { ledger, switches } = this.#melting;
    const { inputs, blanks } = payment;
    const verifyInputs = () => {
      const verified = ledger.verified(inputs);
      const transaction = { inputs, outputs: blanks, quoteId: quote.id };
      refuseUnmetConditions(transaction, switches.style);
      ledger.refuseSpent(verified);
      ledger.refusePending(verified);
      return verified;
    };
    if (switches.style === 'cdk') {
      const verified = verifyInputs();
      this.#refuseUnlessUnpaid(quote);
      const feeProvidedSat = this.#feeProvidedSat(quote, inputs);
      ledger.refuseBadBlanks(blanks);
      return { reservation: ledger.reserve(verified, blanks), feeProvidedSat };
    }
    this.#refuseUnlessUnpaid(quote);
    ledger.refuseBadBlanks(blanks);
    const feeProvidedSat = this.#feeProvidedSat(quote, inputs);
    return { reservation: ledger.reserve(verifyInputs(), blanks), feeProvidedSat };
  }

  #refuseUnlessUnpaid({ state, request }: TestMintMeltQuote): void {
    if (state !== 'UNPAID') {
      throw new MintRefusal({ kind: state === 'PAID' ? 'melt_paid' : 'melt_pending' });
    }
    this.#refuseSettledInvoice(request);
  }

  /** An invoice is paid once, whichever quote it is for. */
  #refuseSettledInvoice(request: string): void {
    const isTaken = [...this.#byId.values()].some(
      (other) => other.request === request && other.state !== 'UNPAID',
    );
    if (isTaken) {
      throw new MintRefusal({ kind: 'invoice_taken' });
    }
  }

  #feeProvidedSat({ amountSat, feeReserveSat }: TestMintMeltQuote, inputs: Input[]): number {
    const { ledger, switches } = this.#melting;
    const providedSat = sumOfAmounts(inputs);
    const feeProvidedSat = providedSat - amountSat - ledger.keysets.feeSat(inputs);
    if (feeProvidedSat >= feeReserveSat) {
      return feeProvidedSat;
    }
    const neededSat = providedSat - feeProvidedSat + feeReserveSat;
    const detail = `not enough inputs provided for melt. Provided: ${providedSat}, needed: ${neededSat}`;
    const isNutshell = switches.style === 'nutshell';
    throw new MintRefusal({ kind: 'inputs_short', ...(isNutshell && { detail }) });
  }

  #takePending(quoteId: string): PendingMelt {
    const pending = this.#pending.get(quoteId);
    if (pending === undefined) {
      throw new Error(`melt quote is not pending: ${quoteId}`);
    }
    this.#pending.delete(quoteId);
    return pending;
  }

  #change(id: string, changed: Partial<TestMintMeltQuote>): TestMintMeltQuote {
    const quote = { ...this.get(id), ...changed };
    this.#byId.set(id, quote);
    return quote;
  }
}

/** The blanks with amounts, as far as they go, the largest first (NUT-08). */
function changeOutputs(changeSat: number, blanks: readonly Output[]): Output[] {
  const amounts = changeSat
    .toString(2)
    .split('')
    .flatMap((bit, i, bits) => (bit === '1' ? [2 ** (bits.length - 1 - i)] : []));
  return blanks.slice(0, amounts.length).map((blank, i) => ({ ...blank, amount: amounts[i] ?? 0 }));
}
