import type { ProofState } from './ecash.ts';

/** What a melt quote and the proofs for it say together of the payment. */
export type LightningStanding =
  | { standing: 'paid' }
  | { standing: 'under_way'; reason: string }
  /** Nothing was done, so far. */
  | { standing: 'not_done' }
  /** The two do not fit: a mint between two steps, or proofs that were spent for something else. */
  | { standing: 'contradictory'; reason: string };

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
    return quote === 'PAID' && isAllSpent
      ? { standing: 'paid' }
      : { standing: 'contradictory', reason: 'the proofs were spent for something else' };
  }
  return quote === 'PAID'
    ? { standing: 'contradictory', reason: 'the invoice was paid with something else' }
    : { standing: 'not_done' };
}
