import { setTimeout as delay } from 'node:timers/promises';
import { Amount, verifyMintQuoteSignature } from '@cashu/cashu-ts';
import type { Output } from './ledger.ts';
import type { TestMintQuote } from './quotes.ts';
import { MintRefusal } from './refusal.ts';
import type { TestMintState } from './state.ts';

/** Signs outputs for a paid quote (NUT-04, NUT-20). */
export async function issue(
  state: TestMintState,
  quoteId: string,
  outputs: Output[],
  signature: string | null,
) {
  const quote = paidQuote(state, quoteId);
  refuseBadSignature(quote, outputs, signature);
  const signatures = state.ledger.sign(outputs, quote.amountSat);
  await markIssued(state, quoteId);
  return signatures;
}

/** Changes a paid quote to ISSUED, after a pause in PENDING if the switches say so. */
export async function markIssued(state: TestMintState, quoteId: string): Promise<void> {
  const { quotes, switches, closing } = state;
  paidQuote(state, quoteId);
  if (switches.issuePauseMs > 0) {
    quotes.setState(quoteId, 'PENDING');
    await delay(switches.issuePauseMs, undefined, { signal: closing.signal });
  }
  quotes.setState(quoteId, 'ISSUED');
}

function paidQuote({ quotes }: TestMintState, quoteId: string): TestMintQuote {
  const quote = quotes.get(quoteId);
  switch (quote.state) {
    case 'UNPAID':
      throw new MintRefusal(20001, 'quote not paid');
    case 'ISSUED':
      throw new MintRefusal(20002, 'quote already issued');
    case 'PENDING':
      throw new MintRefusal(20005, 'quote is pending');
    default:
      return quote;
  }
}

/** Accepts the message that mints have today; wallets fall back to it from the amended one (NUT-20). */
function refuseBadSignature(
  { id, pubkey }: TestMintQuote,
  outputs: Output[],
  signature: string | null,
): void {
  const messages = outputs.map((output) => ({ ...output, amount: Amount.from(output.amount) }));
  if (
    pubkey !== null &&
    !(signature !== null && verifyMintQuoteSignature(pubkey, id, messages, signature))
  ) {
    throw new MintRefusal(20008, 'Signature for mint request invalid');
  }
}
