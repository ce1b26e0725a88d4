import type { Proof } from '../domain/ecash.ts';
import { keyIdOf, type Sealer } from '../ecash/seal.ts';
import { encodeToken } from '../ecash/token.ts';
import type { Store, TransactionStore } from '../store/store.ts';
import type { SealedProof } from '../store/treasury-store.ts';
import { openProof } from './keep-earnings.ts';

/** What is kept was encrypted with another treasury secret; key ids tell them apart. */
export interface OtherSecret {
  outcome: 'other_secret';
  keyId: string;
  sealedWith: string;
}

/** Opens proofs of the treasury, all or none. */
export async function openProofs(
  sealer: Sealer,
  kept: readonly SealedProof[],
): Promise<{ outcome: 'opened'; proofs: Proof[] } | OtherSecret> {
  const foreign = kept.find(({ proof }) => keyIdOf(proof) !== sealer.keyId);
  if (foreign !== undefined) {
    const sealedWith = keyIdOf(foreign.proof) ?? 'unknown';
    return { outcome: 'other_secret', keyId: sealer.keyId, sealedWith };
  }
  const proofs = await Promise.all(kept.map((proof) => openProof(sealer, proof)));
  return { outcome: 'opened', proofs };
}

/** The `cashuB` token of a withdrawal that is done: the proofs that it has. The same each time. */
export async function tokenOf(
  store: Pick<Store, 'treasury'>,
  sealer: Sealer,
  { id, mintUrl }: { id: string; mintUrl: string },
): Promise<{ outcome: 'encoded'; token: string } | OtherSecret> {
  const opened = await openProofs(sealer, await store.treasury.listOf(id));
  return opened.outcome === 'opened'
    ? { outcome: 'encoded', token: encodeToken(mintUrl, opened.proofs) }
    : opened;
}

/**
 * Forgets a token that somebody redeemed, unless proofs of it are being taken back at the moment.
 *
 * @param kept its proofs that were spent
 * @returns whether that was all of it
 */
export async function forgetRedeemed(
  tx: TransactionStore,
  id: string,
  kept: readonly SealedProof[],
  nowMs: number,
): Promise<boolean> {
  await tx.treasury.forget(id, ysOf(kept));
  const isLeft = (await tx.treasury.listOf(id)).length > 0;
  return isLeft || (await tx.withdrawals.isBeingReclaimed(id))
    ? false
    : tx.withdrawals.setRedeemed(id, nowMs);
}

/** What kept proofs are named by (NUT-07). */
export function ysOf(kept: readonly SealedProof[]): string[] {
  return kept.map(({ y }) => y);
}
