import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { planLeases } from '../../src/watcher/plan-leases.ts';

describe('planLeases', () => {
  it.each<[string, number, number, number, { claim: number; release: number }]>([
    ['to claim all mints if the process is alone', 5, 0, 1, { claim: 5, release: 0 }],
    ['to claim no more than its share of free mints', 10, 0, 3, { claim: 4, release: 0 }],
    [
      'to release a few at a time when another process starts',
      100,
      100,
      2,
      { claim: 0, release: 10 },
    ],
    ['no change while the process is alone', 100, 100, 1, { claim: 0, release: 0 }],
  ])('plans %s', (_case, count, owned, processes, expected) => {
    const watched = mints(count, (index) => (index < owned ? 'me' : null));
    const { claim, release } = planLeases(watched, 'me', processes, new Map(), 0);
    expect({ claim: claim.length, release: release.length }).toEqual(expected);
  });

  it('claims mints that stayed unclaimed for seconds', () => {
    const watched = mints(3, (index) => (index === 0 ? 'me' : null));
    const [, first, second] = watched.map(({ mintUrl }) => mintUrl);
    const freeSince = new Map([
      [first ?? '', 1_000],
      [second ?? '', 1_001],
    ]);
    expect(planLeases(watched, 'me', 3, freeSince, 6_000).claim).toEqual([first]);
    expect(planLeases(watched, 'me', 3, freeSince, 6_001).claim).toEqual([first, second]);
  });

  it('moves nothing for a small imbalance', () => {
    const watched = mints(10, (index) => (index < 6 ? 'me' : 'other'));
    expect(planLeases(watched, 'me', 2, new Map(), 0)).toEqual({ claim: [], release: [] });
  });

  it('converges with every mint watched, from any start and with any number of processes', () => {
    const owners = fc.array(fc.option(fc.constantFrom('p0', 'p1', 'p2', 'gone')), {
      minLength: 1,
      maxLength: 60,
    });
    fc.assert(
      fc.property(owners, fc.integer({ min: 1, max: 4 }), (initial, processes) => {
        const alive = Array.from({ length: processes }, (_, index) => `p${index}`);
        const owned = new Map<string, string | null>(
          initial.map((owner, index) => [
            `https://m${index}.example`,
            owner !== null && alive.includes(owner) ? owner : null,
          ]),
        );
        const freeSince = new Map([...owned.keys()].map((mintUrl) => [mintUrl, 0]));
        let moves = 0;
        for (let turn = 0; turn < 40; turn += 1) {
          moves = 0;
          for (const me of alive) {
            const watched = [...owned].map(([mintUrl, owner]) => ({
              mintUrl,
              ownerProcessId: owner,
            }));
            const { claim, release } = planLeases(watched, me, processes, freeSince, 0);
            moves += claim.length + release.length;
            for (const mintUrl of claim) {
              owned.set(mintUrl, me);
            }
            for (const mintUrl of release) {
              owned.set(mintUrl, null);
            }
          }
        }
        expect(moves).toBe(0);
        expect([...owned.values()]).not.toContain(null);
      }),
    );
  });
});

function mints(count: number, ownerOf: (index: number) => string | null) {
  return Array.from({ length: count }, (_, index) => ({
    mintUrl: `https://m${index}.example`,
    ownerProcessId: ownerOf(index),
  }));
}
