import { expect, it } from 'vitest';
import type { QuoteState } from '../../../src/database/schema.ts';
import { decideTransition, type QuoteTransition } from '../../../src/quotes/quote-state.ts';

const STATES = ['UNPAID', 'EXPIRED', 'INFLIGHT', 'PAID', 'ISSUED'] as const;
const OBSERVED_STATES = ['UNPAID', 'INFLIGHT', 'PAID', 'ISSUED'] as const;

type Outcome = QuoteTransition['outcome'];

/** Rows are stored states, columns are observed states. */
const EXPECTED_OUTCOMES: Record<QuoteState, readonly [Outcome, Outcome, Outcome, Outcome]> = {
  UNPAID: ['unchanged', 'payment_received', 'payment_received', 'payment_received'],
  EXPIRED: ['unchanged', 'payment_received', 'payment_received', 'payment_received'],
  INFLIGHT: ['state_regression', 'unchanged', 'paid_state_changed', 'paid_state_changed'],
  PAID: ['state_regression', 'paid_state_changed', 'unchanged', 'paid_state_changed'],
  ISSUED: ['state_regression', 'state_regression', 'state_regression', 'unchanged'],
};

const CASES = STATES.flatMap((stored) =>
  OBSERVED_STATES.map(
    (observed, column) => [stored, observed, EXPECTED_OUTCOMES[stored][column]] as const,
  ),
);

it.each(CASES)(
  'decideTransition, for a stored %s quote that the mint reports as %s, returns %s',
  (stored, observed, outcome) => {
    const transition = decideTransition(stored, observed, false);
    const isKept = outcome === 'unchanged' || outcome === 'state_regression';
    expect(transition).toEqual({ outcome, newState: isKept ? stored : observed });
    if (stored !== 'UNPAID' || observed !== 'UNPAID') {
      expect(decideTransition(stored, observed, true)).toEqual(transition);
    }
  },
);

it('decideTransition expires an unpaid quote after the grace period', () => {
  const expired = { outcome: 'expired', newState: 'EXPIRED' };
  expect(decideTransition('UNPAID', 'UNPAID', true)).toEqual(expired);
});
