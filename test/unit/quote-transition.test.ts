import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { QuoteState } from '../../src/database/schema.ts';
import {
  decideTransition,
  isPaidQuoteState,
  type QuoteTransition,
} from '../../src/quotes/quote-state.ts';

const STATES = ['UNPAID', 'EXPIRED', 'INFLIGHT', 'PAID', 'ISSUED'] as const;
const OBSERVED = ['UNPAID', 'INFLIGHT', 'PAID', 'ISSUED'] as const;

type Outcome = QuoteTransition['outcome'];

/** Rows are stored states, columns are observed states. */
const EXPECTED: Record<QuoteState, readonly [Outcome, Outcome, Outcome, Outcome]> = {
  UNPAID: ['unchanged', 'payment_received', 'payment_received', 'payment_received'],
  EXPIRED: ['unchanged', 'payment_received', 'payment_received', 'payment_received'],
  INFLIGHT: ['state_regression', 'unchanged', 'state_changed', 'state_changed'],
  PAID: ['state_regression', 'state_changed', 'unchanged', 'state_changed'],
  ISSUED: ['state_regression', 'state_regression', 'state_regression', 'unchanged'],
};

const CASES = STATES.flatMap((stored) =>
  OBSERVED.map((observed, column) => [stored, observed, EXPECTED[stored][column]] as const),
);

it.each(CASES)('from %s, observed as %s: %s', (stored, observed, outcome) => {
  const next = decideTransition(stored, observed, false);
  expect(next).toEqual('state' in next ? { outcome, state: observed } : { outcome });
  if (stored !== 'UNPAID' || observed !== 'UNPAID') {
    expect(decideTransition(stored, observed, true)).toEqual(next);
  }
});

it('expires an unpaid quote after the grace period', () => {
  expect(decideTransition('UNPAID', 'UNPAID', true)).toEqual({
    outcome: 'expired',
    state: 'EXPIRED',
  });
});

it('never leaves the paid states or ISSUED', () => {
  const observations = fc.array(fc.tuple(fc.constantFrom(...OBSERVED), fc.boolean()));
  fc.assert(
    fc.property(fc.constantFrom(...STATES), observations, (first, steps) => {
      let state = first;
      for (const [observed, isPastGrace] of steps) {
        const before = state;
        const next = decideTransition(state, observed, isPastGrace);
        state = 'state' in next ? next.state : state;
        expect(isPaidQuoteState(before) && !isPaidQuoteState(state)).toBe(false);
        expect(before === 'ISSUED' && state !== 'ISSUED').toBe(false);
        const hasAppeared = !isPaidQuoteState(before) && isPaidQuoteState(state);
        expect(next.outcome === 'payment_received').toBe(hasAppeared);
        expect('state' in next).toBe(before !== state);
      }
    }),
  );
});
