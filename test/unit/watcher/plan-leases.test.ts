import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { planLeases } from '../../../src/watcher/plan-leases.ts';

describe('planLeases', () => {
  it.each<[string, number, number, number, { claim: number; release: number }]>([
    ['to claim all free mints if it is the only process', 5, 0, 1, { claim: 5, release: 0 }],
    ['to claim only its share of 10 free mints', 10, 0, 3, { claim: 4, release: 0 }],
    ['to release 10 of its 100 mints to a new process', 100, 100, 2, { claim: 0, release: 10 }],
    ['no change if the only process owns all mints', 100, 100, 1, { claim: 0, release: 0 }],
  ])('plans %s', (_case, mintCount, ownedCount, processCount, expected) => {
    const watched = createMints(mintCount, (index) => (index < ownedCount ? 'me' : null));
    const { toClaim, toRelease } = planLeases(watched, 'me', processCount);
    expect({ claim: toClaim.length, release: toRelease.length }).toEqual(expected);
  });

  it('gives every mint a permanent owner, from any start and with one to four processes', () => {
    const anyOwners = fc.array(fc.option(fc.constantFrom('p0', 'p1', 'p2', 'gone')), {
      minLength: 1,
      maxLength: 60,
    });
    fc.assert(
      fc.property(anyOwners, fc.integer({ min: 1, max: 4 }), (initialOwners, processCount) => {
        const processIds = Array.from({ length: processCount }, (_, index) => `p${index}`);
        const ownerByMint = new Map<string, string | null>(
          initialOwners.map((owner, index) => [
            `https://m${index}.example`,
            owner !== null && processIds.includes(owner) ? owner : null,
          ]),
        );
        let changeCount = 0;
        for (let round = 0; round < 40; round += 1) {
          changeCount = 0;
          for (const processId of processIds) {
            const watched = [...ownerByMint].map(([mintUrl, owner]) => ({
              mintUrl,
              ownerProcessId: owner,
            }));
            const { toClaim, toRelease } = planLeases(watched, processId, processCount);
            changeCount += toClaim.length + toRelease.length;
            for (const mintUrl of toClaim) {
              ownerByMint.set(mintUrl, processId);
            }
            for (const mintUrl of toRelease) {
              ownerByMint.set(mintUrl, null);
            }
          }
        }
        expect(changeCount).toBe(0);
        expect([...ownerByMint.values()]).not.toContain(null);
      }),
    );
  });
});

function createMints(count: number, ownerOf: (index: number) => string | null) {
  return Array.from({ length: count }, (_, index) => ({
    mintUrl: `https://m${index}.example`,
    ownerProcessId: ownerOf(index),
  }));
}
