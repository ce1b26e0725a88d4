import { expect, it } from 'vitest';
import { WatchBudget } from '../../../src/mints/watch-budget.ts';
import { createMintPolicy } from '../../helpers/mints/mint-policy.ts';
import { TestClock } from '../../helpers/test-clock.ts';

const OPERATOR_MINT = 'https://operator.example';
const HONEST_MINT = 'https://honest.example';
const DAY_MS = 24 * 60 * 60_000;

it('limits the mints of a site, but not further quotes of its watched mints', () => {
  const urls = Array.from({ length: 100 }, (_, index) => `https://mint.example/${index}`);
  const { budget } = createBudget(Object.fromEntries(urls.map((url) => [url, 1])));
  expect(budget.getShare('https://mint.example/new')).toBe(0);
  expect(budget.getShare('https://mint.example/0')).toBe(1);
});

it('limits the new quotes of a site within a day, even if they are no longer watched', () => {
  const { budget, clock } = createBudget();
  for (let round = 0; round < 5; round += 1) {
    expect(fill(budget, 'https://mint.example', 10_000)).toBe(10_000);
    budget.setCounts(new Map(), 0);
  }
  expect(budget.getShare('https://mint.example')).toBe(0);
  clock.advance(DAY_MS);
  expect(budget.getShare('https://mint.example')).toBe(1);
});

it('leaves 300 quotes to another site after 55 sites took all they can', () => {
  const { budget } = createBudget();
  for (let site = 0; site < 55; site += 1) {
    fill(budget, `https://attacker-${site}.example`);
  }
  expect(fill(budget, HONEST_MINT)).toBeGreaterThan(250);
});

it('limits the unpaid quotes of the mints that the operator named', () => {
  const { budget } = createBudget({ 'https://user.example': 1 }, 300_000);
  expect(budget.getShare(OPERATOR_MINT)).toBeCloseTo(0.25);
  expect(fill(budget, OPERATOR_MINT, 300_000)).toBe(200_000);
  expect(budget.getShare(OPERATOR_MINT)).toBe(0);
  expect(budget.getShare('https://user.example')).toBe(1);
  budget.setCounts(new Map(), 410_000);
  expect(budget.listLowSites()).toEqual(['all']);
});

function createBudget(counts: Record<string, number> = {}, unpaidQuotes = 0) {
  const clock = new TestClock();
  const budget = new WatchBudget(createMintPolicy(OPERATOR_MINT), clock.now);
  budget.setCounts(new Map(Object.entries(counts)), unpaidQuotes);
  return { budget, clock };
}

function fill(budget: WatchBudget, mintUrl: string, maxQuotes = 100_000): number {
  let added = 0;
  while (added < maxQuotes && budget.getShare(mintUrl) > 0) {
    budget.addQuote(mintUrl);
    added += 1;
  }
  return added;
}
