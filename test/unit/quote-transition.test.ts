import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isPaidState, type ObservedState, type QuoteState } from '../../src/domain/quote.ts';
import { type Transition, transition } from '../../src/domain/quote-transition.ts';

const STATES = ['UNPAID', 'EXPIRED', 'INFLIGHT', 'PAID', 'ISSUED'] as const;
const OBSERVED = ['UNPAID', 'INFLIGHT', 'PAID', 'ISSUED'] as const;

/** By the state that is held, then by the one that is observed. */
const EXPECTED: Record<QuoteState, Record<ObservedState, Transition['outcome']>> = {
  UNPAID: {
    UNPAID: 'unchanged',
    INFLIGHT: 'payment_appeared',
    PAID: 'payment_appeared',
    ISSUED: 'payment_appeared',
  },
  EXPIRED: {
    UNPAID: 'unchanged',
    INFLIGHT: 'payment_appeared',
    PAID: 'payment_appeared',
    ISSUED: 'payment_appeared',
  },
  INFLIGHT: {
    UNPAID: 'backwards',
    INFLIGHT: 'unchanged',
    PAID: 'state_changed',
    ISSUED: 'state_changed',
  },
  PAID: {
    UNPAID: 'backwards',
    INFLIGHT: 'state_changed',
    PAID: 'unchanged',
    ISSUED: 'state_changed',
  },
  ISSUED: {
    UNPAID: 'backwards',
    INFLIGHT: 'backwards',
    PAID: 'backwards',
    ISSUED: 'unchanged',
  },
};

const CASES = STATES.flatMap((held) =>
  OBSERVED.map((observed) => [held, observed, EXPECTED[held][observed]] as const),
);

describe('the transition of a quote', () => {
  it.each(CASES)('from %s, observed as %s: %s', (held, observed, outcome) => {
    const next = transition(held, observed, false);
    expect(next.outcome).toBe(outcome);
    if ('state' in next) {
      expect(next.state).toBe(observed);
    }
  });

  it('from UNPAID ends as EXPIRED once a late payment is no longer waited for', () => {
    expect(transition('UNPAID', 'UNPAID', true)).toEqual({ outcome: 'expired', state: 'EXPIRED' });
  });

  it.each(CASES.filter(([held, observed]) => held !== 'UNPAID' || observed !== 'UNPAID'))(
    'from %s, observed as %s, does not depend on the time',
    (held, observed) => {
      expect(transition(held, observed, true)).toEqual(transition(held, observed, false));
    },
  );

  it('never leaves the paid states, nor ISSUED, whatever is observed', () => {
    const words = fc.array(fc.tuple(fc.constantFrom(...OBSERVED), fc.boolean()));
    fc.assert(
      fc.property(fc.constantFrom(...STATES), words, (first, observations) => {
        let state = first;
        for (const [observed, isPastGrace] of observations) {
          const before = state;
          const next = transition(state, observed, isPastGrace);
          state = 'state' in next ? next.state : state;
          expect(isPaidState(before) && !isPaidState(state)).toBe(false);
          expect(before === 'ISSUED' && state !== 'ISSUED').toBe(false);
          expect(next.outcome === 'payment_appeared').toBe(
            !isPaidState(before) && isPaidState(state),
          );
          expect('state' in next).toBe(before !== state);
        }
      }),
    );
  });
});
