import type { Proof } from '../domain/ecash.ts';
import { yOf } from '../ecash/proofs.ts';
import type { Sealer } from '../ecash/seal.ts';
import type { SealedProof } from '../store/treasury-store.ts';

/**
 * Makes the operator's proofs ready to be kept: each sealed by itself, and for its own row.
 *
 * @param mintUrl where they can be spent
 */
export async function sealProofs(
  sealer: Sealer,
  mintUrl: string,
  proofs: readonly Proof[],
): Promise<SealedProof[]> {
  return await Promise.all(
    proofs.map(async (proof) => {
      const y = yOf(proof);
      return {
        y,
        mintUrl,
        amountSat: proof.amount,
        proof: await sealer.seal(contextOf(y), proof),
      };
    }),
  );
}

/** Opens what {@link sealProofs} sealed. */
export async function openProof(sealer: Sealer, sealed: Pick<SealedProof, 'y' | 'proof'>) {
  return (await sealer.open(contextOf(sealed.y), sealed.proof)) as Proof;
}

function contextOf(y: string): string {
  return `treasury proof ${y}`;
}
