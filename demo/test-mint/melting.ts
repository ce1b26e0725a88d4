import { randomUUIDv7 } from 'node:crypto';
import { decodeInvoice } from '../../src/quotes/bolt11.ts';
import type { BlindedMessage, Proof } from './ledger.ts';
import { MintRejection } from './mint-rejection.ts';
import type { TestMintState } from './state.ts';

/** A melt quote (NUT-05, NUT-23). */
interface MeltQuote {
  quote: string;
  request: string;
  amount: number;
  unit: 'sat';
  fee_reserve: number;
  state: 'UNPAID' | 'PENDING' | 'PAID';
  expiry: number;
  payment_preimage: string | null;
  change?: object[];
}

export type MeltQuotes = Map<string, MeltQuote>;

/** More than a payment costs, so that there is change (NUT-08). */
const FEE_RESERVE_SAT = 3;
const LIGHTNING_FEE_SAT = 1;

export function createMeltQuote({ meltQuotes, now }: TestMintState, request: string): MeltQuote {
  const amountMsat = decodeInvoice(request)?.amountMsat;
  if (!amountMsat) {
    throw new MintRejection(0, 'invoice has no amount');
  }
  const quote: MeltQuote = {
    quote: randomUUIDv7(),
    request,
    amount: Math.ceil(amountMsat / 1000),
    unit: 'sat',
    fee_reserve: FEE_RESERVE_SAT,
    state: 'UNPAID',
    expiry: Math.floor(now() / 1000) + 3600,
    payment_preimage: null,
  };
  meltQuotes.set(quote.quote, quote);
  return quote;
}

export function getMeltQuote({ meltQuotes }: TestMintState, id: string): MeltQuote {
  const quote = meltQuotes.get(id);
  if (quote === undefined) {
    throw new MintRejection(0, 'quote not found');
  }
  return quote;
}

/** Pays an invoice with proofs. An invoice of this mint becomes PAID; any other one is not really paid. */
export async function melt(
  state: TestMintState,
  id: string,
  inputs: Proof[],
  blanks: BlindedMessage[],
): Promise<MeltQuote> {
  const { ledger, quotes, switches, holds } = state;
  const quote = getMeltQuote(state, id);
  if (quote.state !== 'UNPAID') {
    throw new MintRejection(quote.state === 'PAID' ? 20006 : 20005, `melt quote is ${quote.state}`);
  }
  const spending = ledger.beginMelt(inputs, quote.amount + quote.fee_reserve);
  quote.state = 'PENDING';
  await holds.waitIfHeld('POST /v1/melt/bolt11', 'during');
  if (switches.doPaymentsFail) {
    spending.cancel();
    quote.state = 'UNPAID';
    throw new MintRejection(20004, 'Lightning payment failed: no route');
  }
  if (quotes.findByRequest(quote.request) !== undefined) {
    quotes.setState(quotes.findByRequest(quote.request)?.id ?? '', 'PAID');
  }
  quote.change = spending.complete(quote.amount + LIGHTNING_FEE_SAT, blanks);
  quote.payment_preimage = '00'.repeat(32);
  quote.state = 'PAID';
  return quote;
}
