import { describe, expect, it } from 'vitest';
import { WatchBudget } from '../../../src/mints/watch-budget.ts';

const OPERATOR_MINT = 'https://operator.example';

function createBudget(counts: Record<string, number> = {}): WatchBudget {
  const budget = new WatchBudget({ operatorMints: [OPERATOR_MINT], isPortPartOfSite: false });
  budget.setCounts(new Map(Object.entries(counts)));
  return budget;
}

describe('WatchBudget', () => {
  it('limits the quotes of a site, for all its hosts and paths together', () => {
    const budget = createBudget({
      'https://a.mint.example': 4_001,
      'https://b.mint.example/x': 4_332,
    });
    expect(budget.hasRoom('https://c.mint.example')).toBe(true);
    budget.add('https://c.mint.example');
    expect(budget.hasRoom('https://a.mint.example')).toBe(false);
    expect(budget.hasRoom('https://other.example')).toBe(true);
  });

  it('counts the IPv6 addresses of one provider as one site, because they cost nothing', () => {
    const budget = createBudget({ 'https://[2001:4860:1::1]': 8_334 });
    expect(budget.hasRoom('https://[2001:4860:2:3::4]/x')).toBe(false);
    expect(budget.hasRoom('https://[2001:4861::1]')).toBe(true);
    expect(budget.hasRoom('https://192.0.2.1')).toBe(true);
  });

  it('limits the mints of a site, but not further quotes of its watched mints', () => {
    const urls = Array.from({ length: 96 }, (_, index) => `https://mint.example/${index}`);
    const budget = createBudget(Object.fromEntries(urls.map((url) => [url, 1])));
    expect(budget.hasRoom('https://mint.example/new')).toBe(false);
    expect(budget.hasRoom('https://mint.example/0')).toBe(true);
  });

  it('leaves room for an honest site when 45 sites take what they can', () => {
    const budget = createBudget();
    for (let round = 0; round < 1_500; round += 1) {
      for (let site = 0; site < 45; site += 1) {
        const mintUrl = `https://attacker-${site}.example`;
        if (budget.hasRoom(mintUrl)) {
          budget.add(mintUrl);
        }
      }
    }
    const honestQuotes = Array.from({ length: 800 }, () => {
      const hasRoom = budget.hasRoom('https://honest.example');
      budget.add('https://honest.example');
      return hasRoom;
    });
    expect(honestQuotes.every(Boolean)).toBe(true);
  });

  it('has no limits for the mints that the operator named', () => {
    const budget = createBudget({ [OPERATOR_MINT]: 1_000_000, 'https://user.example': 1 });
    expect(budget.hasRoom(OPERATOR_MINT)).toBe(true);
    expect(budget.hasRoom('https://user.example')).toBe(true);
  });

  it('replaces its counts', () => {
    const budget = createBudget({ 'https://mint.example': 60_000 });
    expect(budget.hasRoom('https://other.example')).toBe(false);
    budget.setCounts(new Map());
    expect(budget.hasRoom('https://mint.example')).toBe(true);
  });
});
