import { setTimeout as delay } from 'node:timers/promises';
import { type Output, type OutputSignature, sumOfAmounts, type TestMintLedger } from './ledger.ts';
import { isSignedBy } from './mint-quote-signature.ts';
import type { TestMintQuote, TestMintQuotes } from './quotes.ts';
import { MintRefusal } from './refusal.ts';
import type { TestMintSwitches } from './switches.ts';

/** A paid quote that a wallet wants minted. */
export interface IssueOrder {
  quoteId: string;
  /** By the key of a locked quote (NUT-20). */
  signature: string | null;
}

/** What issuing needs of the mint. */
export interface Issuing {
  quotes: TestMintQuotes;
  ledger: TestMintLedger;
  switches: TestMintSwitches;
  /** Milliseconds since 1970. */
  now: () => number;
  /** Ends a pause when the mint closes. */
  closing: AbortSignal;
}

/** Signs outputs for paid quotes, all or none (NUT-04, NUT-20, NUT-29). */
export async function issue(
  issuing: Issuing,
  orders: IssueOrder[],
  outputs: Output[],
): Promise<OutputSignature[]> {
  const { quotes, ledger, switches, now } = issuing;
  const paid = orders.map(({ quoteId, signature }) => {
    const quote = quotes.get(quoteId);
    refuseUnlessPaid(quote);
    refuseExpired(quote, switches, now());
    refuseBadSignature(quote, outputs, signature, switches);
    return quote;
  });
  const amountSat = paid.reduce((sum, quote) => sum + quote.amountSat, 0);
  if (sumOfAmounts(outputs) !== amountSat) {
    throw new MintRefusal({ kind: 'unbalanced' });
  }
  const signatures = ledger.sign(outputs);
  await markIssued(issuing, paid);
  return signatures;
}

/** Moves paid quotes on to ISSUED, with a pause in PENDING where the mint makes one. */
export async function markIssued(
  { quotes, switches, closing }: Pick<Issuing, 'quotes' | 'switches' | 'closing'>,
  paid: TestMintQuote[],
): Promise<void> {
  if (switches.issuePauseMs > 0) {
    setStates(quotes, paid, 'PENDING');
    await delay(switches.issuePauseMs, undefined, { signal: closing });
  }
  setStates(quotes, paid, 'ISSUED');
}

function setStates(
  quotes: TestMintQuotes,
  changed: TestMintQuote[],
  state: TestMintQuote['state'],
): void {
  for (const { id } of changed) {
    quotes.setState(id, state);
  }
}

/** Refuses what cannot be minted, or not now. */
export function refuseUnlessPaid({ state }: TestMintQuote): void {
  const kind = (
    {
      UNPAID: 'quote_unpaid',
      PENDING: 'quote_pending',
      ISSUED: 'quote_issued',
      PAID: null,
    } as const
  )[state];
  if (kind !== null) {
    throw new MintRefusal({ kind });
  }
}

function refuseExpired(
  { expiresAt }: TestMintQuote,
  { style }: TestMintSwitches,
  now: number,
): void {
  if (style === 'nutshell' && now > expiresAt * 1000) {
    throw new MintRefusal({ kind: 'quote_expired' });
  }
}

function refuseBadSignature(
  { id, pubkey }: TestMintQuote,
  outputs: Output[],
  signature: string | null,
  { style }: TestMintSwitches,
): void {
  const isRight =
    pubkey === null
      ? signature === null || style === 'nutshell'
      : signature !== null && isSignedBy(pubkey, id, outputs, signature);
  if (!isRight) {
    throw new MintRefusal({ kind: 'signature_invalid' });
  }
}
