import { Amount, hashToCurve, hasValidDleq } from '@cashu/cashu-ts';
import type { Keyset, KeysetKeys, Proof } from '../../mints/ecash.ts';

/** Names a proof without telling its secret: `hash_to_curve(secret)`, compressed, in hex (NUT-00, NUT-07). */
export function yOf(proof: Pick<Proof, 'secret'>): string {
  return hashToCurve(new TextEncoder().encode(proof.secret)).toHex(true);
}

/**
 * Whether a proof carries evidence that is wrong (NUT-12). One without evidence is not false: only the
 * mint can tell then. Takes milliseconds of this process.
 *
 * @param keys of the proof's keyset; where they have none for its amount, no evidence can be right
 */
export function hasFalseDleq(proof: Proof, keys: KeysetKeys): boolean {
  if (proof.id !== keys.id) {
    throw new Error('These are not the keys of the keyset of the proof.');
  }
  if (proof.dleq === undefined) {
    return false;
  }
  return (
    !Object.hasOwn(keys.keys, proof.amount) ||
    !hasValidDleq({ ...proof, amount: Amount.from(proof.amount) }, keys)
  );
}

/**
 * What a mint keeps when these proofs are spent together (NUT-02): each costs its keyset's thousandths
 * of a sat, and the sum is rounded up.
 *
 * @param keysets all that the proofs are of, among others
 * @throws Error where a proof is of none of them
 */
export function inputFeeSat(proofs: readonly Proof[], keysets: readonly Keyset[]): number {
  const feePpk = new Map(keysets.map(({ id, inputFeePpk }) => [id, inputFeePpk]));
  const sumPpk = proofs.reduce((sum, { id }) => {
    const ppk = feePpk.get(id);
    if (ppk === undefined) {
      throw new Error(`The fee of the keyset ${id} is not known.`);
    }
    return sum + ppk;
  }, 0);
  return Math.floor((sumPpk + 999) / 1000);
}
