import { sumOfAmounts } from './ecash.ts';

/**
 * Chooses proofs that make up an amount and not a sat more, the largest first: with amounts that are
 * powers of two, as those of keysets are, this finds them wherever they are there.
 *
 * @returns null where they are not
 */
export function chooseExactly<Piece extends { amount: number }>(
  proofs: readonly Piece[],
  amountSat: number,
): Piece[] | null {
  const chosen: Piece[] = [];
  let leftSat = amountSat;
  for (const proof of largestFirst(proofs)) {
    if (proof.amount <= leftSat) {
      chosen.push(proof);
      leftSat -= proof.amount;
    }
  }
  return leftSat === 0 ? chosen : null;
}

/**
 * Chooses proofs that are worth an amount after the mint's fee for them (NUT-02), as few as there can
 * be: each costs a fee.
 *
 * @returns null where no number of the largest is worth as much
 */
export function chooseWorth<Piece extends { amount: number }>(
  proofs: readonly Piece[],
  amountSat: number,
  feeSat: (proofs: readonly Piece[]) => number,
): Piece[] | null {
  const chosen: Piece[] = [];
  for (const proof of largestFirst(proofs)) {
    chosen.push(proof);
    if (worthSat(chosen, feeSat) >= amountSat) {
      return chosen;
    }
  }
  return null;
}

/**
 * The most that can be had of proofs after the mint's fee: the smallest ones may cost more than they are
 * worth.
 */
export function mostWorthSat<Piece extends { amount: number }>(
  proofs: readonly Piece[],
  feeSat: (proofs: readonly Piece[]) => number,
): number {
  const sorted = largestFirst(proofs);
  const worths = sorted.map((_, index) => worthSat(sorted.slice(0, index + 1), feeSat));
  return Math.max(0, ...worths);
}

/** What proofs are worth at their mint, less its fee for them. */
function worthSat<Piece extends { amount: number }>(
  proofs: readonly Piece[],
  feeSat: (proofs: readonly Piece[]) => number,
): number {
  return sumOfAmounts(proofs) - feeSat(proofs);
}

function largestFirst<Piece extends { amount: number }>(proofs: readonly Piece[]): Piece[] {
  return proofs.toSorted((a, b) => b.amount - a.amount);
}
