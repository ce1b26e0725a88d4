import type { ProofState } from './ecash.ts';

/** What a melt quote and the proofs for it say together of the payment. */
export type LightningStanding =
  | { standing: 'paid' }
  | { standing: 'under_way'; reason: string }
  /** Nothing was done, so far. */
  | { standing: 'not_done' }
  /**
   * The two do not fit: a mint between two steps, one that forgot the quote, or proofs that were spent
   * for something else.
   */
  | { standing: 'contradictory'; reason: string; isAllSpent: boolean };

/** Proofs that are spent do not tell for what. */
export const PROBABLY_MADE =
  'the mint took the proofs and does not tell for what: the payment was probably made';

/**
 * Decides how a payment by melt stands (NUT-05, NUT-07).
 *
 * @param quote its state, or that the mint does not know it
 * @param inputs the states that the proofs have, each once
 */
export function meltStanding(
  quote: 'UNPAID' | 'PENDING' | 'PAID' | 'not_found',
  inputs: ReadonlySet<ProofState>,
): LightningStanding {
  if (quote === 'PENDING' || inputs.has('PENDING')) {
    return { standing: 'under_way', reason: 'the payment is under way' };
  }
  if (inputs.has('SPENT')) {
    const isAllSpent = !inputs.has('UNSPENT');
    if (!isAllSpent) {
      return { standing: 'contradictory', reason: 'some proofs were spent before', isAllSpent };
    }
    switch (quote) {
      case 'PAID':
        return { standing: 'paid' };
      case 'not_found':
        return { standing: 'contradictory', reason: PROBABLY_MADE, isAllSpent };
      case 'UNPAID':
        return { standing: 'contradictory', reason: 'the proofs were spent before', isAllSpent };
    }
  }
  return quote === 'PAID'
    ? {
        standing: 'contradictory',
        reason: 'the invoice was paid with something else',
        isAllSpent: false,
      }
    : { standing: 'not_done' };
}
