import type { Proof } from '../mints/ecash.ts';
import type { Sealer } from '../sealer.ts';
import { computeY, mapInSlices } from './ecash/proofs.ts';
import type { SealedProof } from './treasury-store.ts';

/** Seals each proof for its own row of the treasury. */
export async function sealProofs(
  sealer: Sealer,
  mintUrl: string,
  proofs: readonly Proof[],
  expiresAtMs: number | null = null,
): Promise<SealedProof[]> {
  const identifiedProofs = await mapInSlices(proofs, (proof) => ({ proof, y: computeY(proof) }));
  return await Promise.all(
    identifiedProofs.map(async ({ proof, y }) => {
      const sealed = await sealer.seal(`treasury proof ${y}`, proof);
      return { y, mintUrl, amountSat: proof.amount, expiresAtMs, sealed };
    }),
  );
}

export async function openProof(sealer: Sealer, { y, sealed }: Pick<SealedProof, 'y' | 'sealed'>) {
  return (await sealer.open(`treasury proof ${y}`, sealed)) as Proof;
}
