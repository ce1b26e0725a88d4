import { expect, it } from 'vitest';
import type { ProofState } from '../../src/domain/ecash.ts';
import { meltStanding } from '../../src/domain/melt-standing.ts';

/** What a melt quote and the proofs for it say together (NUT-05, NUT-07). */

it.each([
  ['PAID', ['SPENT'], 'paid'],
  ['PAID', ['UNSPENT'], 'contradictory'],
  ['PAID', ['SPENT', 'UNSPENT'], 'contradictory'],
  ['PAID', ['PENDING'], 'under_way'],
  ['PENDING', ['PENDING'], 'under_way'],
  ['PENDING', ['UNSPENT'], 'under_way'],
  ['PENDING', ['SPENT'], 'under_way'],
  ['UNPAID', ['UNSPENT'], 'not_done'],
  ['UNPAID', ['PENDING', 'UNSPENT'], 'under_way'],
  ['UNPAID', ['SPENT'], 'contradictory'],
  ['not_found', ['UNSPENT'], 'not_done'],
  ['not_found', ['SPENT', 'UNSPENT'], 'contradictory'],
] as const)(
  'a quote that is %s and proofs that are %j are a payment that is %s',
  (quote, states, standing) => {
    expect(meltStanding(quote, new Set<ProofState>(states)).standing).toBe(standing);
  },
);

it.each([
  ['UNPAID', ['SPENT'], true],
  ['not_found', ['SPENT'], true],
  ['UNPAID', ['SPENT', 'UNSPENT'], false],
  ['PAID', ['UNSPENT'], false],
] as const)(
  'a quote that is %s and proofs that are %j can have been a payment that was made: %s',
  (quote, states, isAllSpent) => {
    expect(meltStanding(quote, new Set<ProofState>(states))).toMatchObject({
      standing: 'contradictory',
      isAllSpent,
    });
  },
);
