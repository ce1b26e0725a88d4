import fc from 'fast-check';
import { expect, it } from 'vitest';
import { isPaidState, type Transition, transition } from '../../src/quotes/quote.ts';
import type { QuoteState } from '../../src/database/schema.ts';

const STATES = ['UNPAID', 'EXPIRED', 'INFLIGHT', 'PAID', 'ISSUED'] as const;
const OBSERVED = ['UNPAID', 'INFLIGHT', 'PAID', 'ISSUED'] as const;

type Outcome = Transition['outcome'];

/** By the stored state; the columns are the observed states. */
const EXPECTED: Record<QuoteState, readonly [Outcome, Outcome, Outcome, Outcome]> = {
  UNPAID: ['unchanged', 'payment_appeared', 'payment_appeared', 'payment_appeared'],
  EXPIRED: ['unchanged', 'payment_appeared', 'payment_appeared', 'payment_appeared'],
  INFLIGHT: ['backwards', 'unchanged', 'state_changed', 'state_changed'],
  PAID: ['backwards', 'state_changed', 'unchanged', 'state_changed'],
  ISSUED: ['backwards', 'backwards', 'backwards', 'unchanged'],
};

const CASES = STATES.flatMap((stored) =>
  OBSERVED.map((observed, column) => [stored, observed, EXPECTED[stored][column]] as const),
);

it.each(CASES)('from %s, observed as %s: %s', (stored, observed, outcome) => {
  const next = transition(stored, observed, false);
  expect(next).toEqual('state' in next ? { outcome, state: observed } : { outcome });
  if (stored !== 'UNPAID' || observed !== 'UNPAID') {
    expect(transition(stored, observed, true)).toEqual(next);
  }
});

it('an unpaid quote expires after the grace period', () => {
  expect(transition('UNPAID', 'UNPAID', true)).toEqual({ outcome: 'expired', state: 'EXPIRED' });
});

it('a quote never leaves the paid states, or ISSUED', () => {
  const observations = fc.array(fc.tuple(fc.constantFrom(...OBSERVED), fc.boolean()));
  fc.assert(
    fc.property(fc.constantFrom(...STATES), observations, (first, steps) => {
      let state = first;
      for (const [observed, isPastGrace] of steps) {
        const before = state;
        const next = transition(state, observed, isPastGrace);
        state = 'state' in next ? next.state : state;
        expect(isPaidState(before) && !isPaidState(state)).toBe(false);
        expect(before === 'ISSUED' && state !== 'ISSUED').toBe(false);
        const hasAppeared = !isPaidState(before) && isPaidState(state);
        expect(next.outcome === 'payment_appeared').toBe(hasAppeared);
        expect('state' in next).toBe(before !== state);
      }
    }),
  );
});
