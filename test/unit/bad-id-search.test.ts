import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { BadIdSearch } from '../../src/watcher/bad-id-search.ts';

describe('the search for a bad id', () => {
  let search: BadIdSearch;

  beforeEach(() => {
    search = new BadIdSearch();
  });

  it('asks for nothing while nothing was refused', () => {
    expect(search.next(['a', 'b'], 100)).toEqual([]);
  });

  it('asks for the first half of what was refused, due or not', () => {
    search.refused(['a', 'b', 'c', 'd']);
    expect(search.next([], 100)).toEqual(['a', 'b']);
  });

  it('asks for the other half once the first was answered', () => {
    search.refused(['a', 'b', 'c', 'd']);
    search.clear(['a', 'b']);
    expect(search.next([], 100)).toEqual(['c']);
    expect(search.isSuspect('a')).toBe(false);
  });

  it('suspects no others where a half was refused', () => {
    search.refused(['a', 'b', 'c', 'd']);
    search.refused(['a', 'b']);
    expect(search.isSuspect('c')).toBe(false);
    expect(search.next([], 100)).toEqual(['a']);
  });

  it('names an id that was refused by itself, and suspects it no more', () => {
    search.refused(['a', 'b']);
    expect(search.refused(['a'])).toBe('a');
    expect(search.size).toBe(0);
  });

  it('looks first where the most urgent suspect is', () => {
    search.refused(['a', 'b']);
    search.refused(['c', 'd']);
    expect(search.next(['unsuspected', 'd', 'a'], 100)).toEqual(['c']);
  });

  it('asks for no more than may be asked at once', () => {
    search.refused(['a', 'b', 'c', 'd', 'e', 'f']);
    expect(search.next([], 2)).toEqual(['a', 'b']);
  });

  it('finds a bad id in as many steps as its group can be halved, and one', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1_000 }),
        fc.array(fc.nat(999), { minLength: 1 }),
        (size, places) => {
          const ids = Array.from({ length: size }, (_, index) => `id-${index}`);
          const bad = new Set(places.map((place) => `id-${place % size}`));
          const one = new BadIdSearch();
          let foundId = one.refused(ids);
          let steps = 0;
          for (; foundId === null; steps += 1) {
            const asked = one.next([], 1_000);
            if (asked.some((id) => bad.has(id))) {
              foundId = one.refused(asked);
            } else {
              one.clear(asked);
            }
          }
          expect(bad).toContain(foundId);
          expect(steps).toBeLessThanOrEqual(Math.ceil(Math.log2(size)) + 1);
          expect(one.size).toBe(0);
        },
      ),
    );
  });
});
