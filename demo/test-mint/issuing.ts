import { setTimeout as delay } from 'node:timers/promises';
import { Amount, verifyMintQuoteSignature } from '@cashu/cashu-ts';
import type { BlindedMessage } from './ledger.ts';
import { MintRejection } from './mint-rejection.ts';
import type { TestMintQuote } from './quotes.ts';
import type { TestMintState } from './state.ts';

/** Signs outputs for a paid quote (NUT-04, NUT-20). */
export async function issueSignatures(
  state: TestMintState,
  quoteId: string,
  outputs: BlindedMessage[],
  signature: string | null,
) {
  const quote = requirePaidQuote(state, quoteId);
  assertQuoteSignature(quote, outputs, signature);
  const signatures = state.ledger.sign(outputs, quote.amountSat);
  await markIssued(state, quoteId);
  return signatures;
}

/** Changes a paid quote to ISSUED. If `issueDelayMs` is set, the quote is PENDING for that time. */
export async function markIssued(state: TestMintState, quoteId: string): Promise<void> {
  const { quotes, switches, closeController } = state;
  requirePaidQuote(state, quoteId);
  if (switches.issueDelayMs > 0) {
    quotes.setState(quoteId, 'PENDING');
    await delay(switches.issueDelayMs, undefined, { signal: closeController.signal });
  }
  quotes.setState(quoteId, 'ISSUED');
}

function requirePaidQuote(
  { quotes, switches, now }: TestMintState,
  quoteId: string,
): TestMintQuote {
  const quote = quotes.get(quoteId);
  const isRefused = switches.refusesAfterExpiry && now() > quote.expiresAt * 1000;
  switch (quote.state) {
    case 'UNPAID':
      throw new MintRejection(20001, 'quote not paid');
    case 'ISSUED':
      throw new MintRejection(20002, 'quote already issued');
    case 'PENDING':
      throw new MintRejection(20005, 'quote is pending');
    default:
      if (isRefused) {
        throw new MintRejection(20007, 'quote expired');
      }
      return quote;
  }
}

/**
 * Throws unless the quote is not locked or the signature is right. Accepts only signatures of the original NUT-20 message,
 * to which wallets fall back from the amended message.
 */
function assertQuoteSignature(
  { id, pubkey }: TestMintQuote,
  outputs: BlindedMessage[],
  signature: string | null,
): void {
  if (pubkey === null) {
    return;
  }
  const blindedMessages = outputs.map((output) => ({
    ...output,
    amount: Amount.from(output.amount),
  }));
  if (signature === null || !verifyMintQuoteSignature(pubkey, id, blindedMessages, signature)) {
    throw new MintRejection(20008, 'Signature for mint request invalid');
  }
}
