import { getTag, getTagInt, parseP2PKSecret, type Secret, verifyHTLCHash } from '@cashu/cashu-ts';
import { z } from 'zod';
import { parseJson } from '../domain/foreign-text.ts';

/** Signatures that a proof can be spent with: of so many of these keys, over its secret. */
interface Signers {
  keys: readonly string[];
  needed: number;
}

/** What a witness may bring (NUT-11, NUT-14). */
interface Witness {
  signatures: string[];
  preimage?: string | undefined;
}

const ANYBODY: readonly Signers[] = [{ keys: [], needed: 0 }];
const NOBODY_HERE: readonly Signers[] = [];

const witnessSchema = z.object({
  signatures: z.array(z.string()).default([]),
  preimage: z.string().optional(),
});

/**
 * Reads a witness, which wallets give as an object, as its JSON, or as the JSON of its JSON; one that is
 * none brings nothing.
 */
export function readWitness(witness: unknown): Witness {
  const outer = typeof witness === 'string' ? parseJson(witness) : witness;
  const inner = typeof outer === 'string' ? parseJson(outer) : outer;
  const read = witnessSchema.safeParse(inner);
  return read.success ? read.data : { signatures: [] };
}

/** A witness as mints take it, in JSON; undefined where it brings nothing. */
export function writeWitness({ signatures, preimage }: Witness): string | undefined {
  const isSigned = signatures.length > 0;
  return isSigned || preimage !== undefined
    ? JSON.stringify({ preimage, ...(isSigned && { signatures }) })
    : undefined;
}

/**
 * Which signatures a proof can be spent with, by whoever has its secret and its witness but none of its
 * keys (NUT-10, NUT-11, NUT-14). Any one of the answers suffices; none means that it is locked.
 *
 * Signatures over all inputs and outputs (`SIG_ALL`) cannot be had here: the payer does not know our
 * outputs. A kind of condition that is not known here counts as a lock.
 */
export function waysToSpend(
  secret: string,
  preimage: string | undefined,
  nowSeconds: number,
): readonly Signers[] {
  if (!Array.isArray(parseJson(secret))) {
    return ANYBODY;
  }
  const condition = conditionOf(secret);
  if (condition === null) {
    return NOBODY_HERE;
  }
  const locktime = getTagInt(condition, 'locktime') ?? 0;
  // Not yet in its very second: the mint's clock may be a little behind.
  const isExpired = locktime > 0 && nowSeconds > locktime;
  const refundKeys = getTag(condition, 'refund') ?? [];
  if (isExpired && refundKeys.length === 0) {
    return ANYBODY;
  }
  if (getTag(condition, 'sigflag')?.[0] === 'SIG_ALL') {
    return NOBODY_HERE;
  }
  const refund = { keys: refundKeys, needed: neededOf(condition, 'n_sigs_refund') };
  return [...receivers(condition, preimage), ...(isExpired ? [refund] : [])];
}

/** Those that it was locked to, where the preimage fits. */
function receivers(condition: Secret, preimage: string | undefined): Signers[] {
  const [kind, { data }] = condition;
  const pubkeys = getTag(condition, 'pubkeys') ?? [];
  if (kind === 'P2PK') {
    return [{ keys: [data, ...pubkeys], needed: neededOf(condition, 'n_sigs') }];
  }
  if (preimage === undefined || !verifyHTLCHash(preimage, data)) {
    return [];
  }
  return [{ keys: pubkeys, needed: pubkeys.length === 0 ? 0 : neededOf(condition, 'n_sigs') }];
}

function neededOf(condition: Secret, tag: string): number {
  return Math.max(getTagInt(condition, tag) ?? 1, 1);
}

/** Null where it is not one that is known here, or not well-formed. */
function conditionOf(secret: string): Secret | null {
  try {
    return parseP2PKSecret(secret);
  } catch {
    return null;
  }
}
