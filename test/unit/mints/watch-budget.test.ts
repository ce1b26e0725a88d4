import { describe, expect, it } from 'vitest';
import { WatchBudget } from '../../../src/mints/watch-budget.ts';
import { createMintPolicy } from '../../helpers/mints/mint-policy.ts';

const OPERATOR_MINT = 'https://operator.example';
const HONEST_MINT = 'https://honest.example';

function createBudget(counts: Record<string, number> = {}, unpaidQuotes = 0): WatchBudget {
  const budget = new WatchBudget(createMintPolicy(OPERATOR_MINT));
  budget.setCounts(new Map(Object.entries(counts)), unpaidQuotes);
  return budget;
}

/** Adds quotes while there is room. Returns how many were added. */
function fill(budget: WatchBudget, mintUrl: string, maxQuotes = 100_000): number {
  let added = 0;
  while (added < maxQuotes && budget.getShare(mintUrl) > 0) {
    budget.add(mintUrl);
    added += 1;
  }
  return added;
}

describe('WatchBudget', () => {
  it('limits the quotes of a site, for all its hosts and paths together', () => {
    const budget = createBudget({ 'https://a.mint.example': 9_000 });
    expect(Math.round(fill(budget, 'https://b.mint.example/x') / 10)).toBe(1_100);
    expect(budget.getShare('https://a.mint.example')).toBe(0);
    expect(budget.getShare(HONEST_MINT)).toBe(1);
  });

  it('returns the share of an address, which shrinks when less than half of the quotes of a site is free', () => {
    const budget = createBudget({ 'https://mint.example': 15_000 });
    const siteLimit = 22_500;
    expect(budget.getShare('https://mint.example')).toBeCloseTo(
      2 ** (-20 * (15_000 / siteLimit - 0.5)),
    );
    expect(budget.getShare(HONEST_MINT)).toBe(1);
  });

  it('limits the mints of a site, but not further quotes of its watched mints', () => {
    const urls = Array.from({ length: 100 }, (_, index) => `https://mint.example/${index}`);
    const budget = createBudget(Object.fromEntries(urls.map((url) => [url, 1])));
    expect(budget.getShare('https://mint.example/new')).toBe(0);
    expect(budget.getShare('https://mint.example/0')).toBeGreaterThan(0.9);
  });

  it.each([10, 45, 200])(
    'guarantees room for another site after %i sites took all they can',
    (sites) => {
      const budget = createBudget();
      for (let site = 0; site < sites; site += 1) {
        fill(budget, `https://attacker-${site}.example`);
      }
      expect(fill(budget, HONEST_MINT)).toBeGreaterThanOrEqual(Math.floor(15_000 / (sites + 2)));
    },
  );

  it('watches at most twice the total at 300 sites', () => {
    const budget = createBudget();
    let total = 0;
    for (let site = 0; site < 300; site += 1) {
      total += fill(budget, `https://attacker-${site}.example`);
    }
    expect(total).toBeLessThan(120_000);
  });

  it('returns the sites that have little room', () => {
    const budget = createBudget();
    const counts = { 'https://full.example/mint': 18_000, 'https://other.example': 5_000 };
    expect(budget.setCounts(new Map(Object.entries(counts)), 0)).toEqual(['full.example']);
  });

  it('limits the unpaid quotes of the mints that the operator named', () => {
    const budget = createBudget({ 'https://user.example': 1 }, 300_000);
    expect(budget.getShare(OPERATOR_MINT)).toBeCloseTo(0.25);
    expect(fill(budget, OPERATOR_MINT, 300_000)).toBe(200_000);
    expect(budget.getShare(OPERATOR_MINT)).toBe(0);
    expect(budget.getShare('https://user.example')).toBe(1);
    expect(budget.setCounts(new Map(), 410_000)).toEqual(['all']);
  });

  it('replaces its counts', () => {
    const budget = createBudget({ 'https://mint.example': 60_000 });
    expect(budget.getShare('https://mint.example')).toBe(0);
    budget.setCounts(new Map(), 0);
    expect(budget.getShare('https://mint.example')).toBe(1);
  });
});
