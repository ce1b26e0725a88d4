import {
  Amount,
  getP2PKSigFlag,
  getSecretData,
  getSecretKind,
  verifyP2PKSpendingConditions,
} from '@cashu/cashu-ts';
import type { Input, Output } from './ledger.ts';
import { MintRefusal } from './refusal.ts';
import type { MintStyle } from './switches.ts';

/** A swap or a melt, as far as signatures on all of it go (SIG_ALL). */
export interface SignedTransaction {
  inputs: readonly Input[];
  outputs: readonly Output[];
  /** Of a melt. */
  quoteId?: string;
}

/**
 * Refuses inputs whose P2PK conditions are not met (NUT-10, NUT-11). Other kinds of conditions are
 * not known here; such proofs are spent as if they had none, as NUT-10 says. A lock's time is told
 * by the system's clock.
 */
export function refuseUnmetConditions(transaction: SignedTransaction, style: MintStyle): void {
  const { inputs } = transaction;
  if (inputs.some(isSigAll)) {
    refuseUnlessAlike(inputs);
    refuseUnlessUnlocked(inputs.slice(0, 1), messageOf(transaction));
    return;
  }
  if (style === 'nutshell' && inputs.some((input) => !isLocked(input) && input.witness !== null)) {
    throw new MintRefusal({ kind: 'witness_unexpected' });
  }
  refuseUnlessUnlocked(inputs.filter(isLocked));
}

/** @param message what is signed; default: each input's own secret */
function refuseUnlessUnlocked(locked: readonly Input[], message?: string): void {
  for (const input of locked) {
    if (!isUnlocked(input, message)) {
      const kind = input.witness === null ? 'witness_missing' : 'conditions_unmet';
      throw new MintRefusal({ kind });
    }
  }
}

function isUnlocked(input: Input, message: string | undefined): boolean {
  try {
    const { witness, amount, ...rest } = input;
    const proof = { ...rest, amount: Amount.from(amount), ...(witness !== null && { witness }) };
    return verifyP2PKSpendingConditions(proof, undefined, message).success;
  } catch {
    // A lock that makes no sense keeps everybody out.
    return false;
  }
}

function isLocked({ secret }: Input): boolean {
  try {
    return getSecretKind(secret) === 'P2PK';
  } catch {
    return false;
  }
}

function isSigAll(input: Input): boolean {
  try {
    return isLocked(input) && getP2PKSigFlag(input.secret) === 'SIG_ALL';
  } catch {
    return false;
  }
}

/** With SIG_ALL every input must have the same lock; the first has the signatures for all. */
function refuseUnlessAlike(inputs: readonly Input[]): void {
  const locks = inputs.map((input) => {
    if (!isSigAll(input)) {
      return 'another';
    }
    const { data, tags } = getSecretData(input.secret);
    return JSON.stringify([data, tags]);
  });
  if (new Set(locks).size > 1) {
    throw new MintRefusal({ kind: 'conditions_unmet' });
  }
}

/** NUT-11, SIG_ALL. */
function messageOf({ inputs, outputs, quoteId = '' }: SignedTransaction): string {
  return [
    ...inputs.flatMap(({ secret, C }) => [secret, C]),
    ...outputs.flatMap(({ amount, B_ }) => [String(amount), B_]),
    quoteId,
  ].join('');
}
