import { describe, expect, it } from 'vitest';
import { POLL_GAP_MS, RequestBudget, type RequestOutcome } from '../../src/mint/request-budget.ts';

const MINT = 'https://mint.example';
const NOW = 1_800_000_000_000;
const FOUND: RequestOutcome = { outcome: 'found' };
const UNAVAILABLE: RequestOutcome = { outcome: 'unavailable' };

describe('the request budget of a mint', () => {
  it('lets a first request go at once', () => {
    expect(new RequestBudget({ pollGapMs: POLL_GAP_MS }).waitMs(MINT, 'read', NOW)).toBe(0);
  });

  it('keeps polls below twenty a minute on each route', () => {
    const budget = new RequestBudget({ pollGapMs: POLL_GAP_MS });
    let now = NOW;
    let polls = 0;
    while (now < NOW + 60_000) {
      budget.record(MINT, 'check', FOUND, now);
      polls += 1;
      now += budget.waitMs(MINT, 'check', now);
    }
    expect(polls).toBeLessThan(20);
    expect(polls).toBeGreaterThanOrEqual(12);
    expect(budget.waitMs(MINT, 'read', now)).toBe(0);
  });

  it('puts no gap between the payments that it asks quotes for', () => {
    const budget = new RequestBudget({ pollGapMs: POLL_GAP_MS });
    budget.record(MINT, 'create', { outcome: 'created' }, NOW);
    expect(budget.waitMs(MINT, 'create', NOW)).toBe(0);
  });

  it('leaves a route quite alone for more than a minute after a 429', () => {
    const budget = new RequestBudget({ pollGapMs: POLL_GAP_MS });
    budget.record(MINT, 'create', { outcome: 'rate_limited', retryAfterMs: null }, NOW);
    expect(budget.waitMs(MINT, 'create', NOW + 60_000)).toBeGreaterThan(0);
    expect(budget.waitMs(MINT, 'create', NOW + 65_000)).toBe(0);
  });

  it('rests as long as the mint says where it says so', () => {
    const budget = new RequestBudget({ pollGapMs: POLL_GAP_MS });
    budget.record(MINT, 'check', { outcome: 'rate_limited', retryAfterMs: 120_000 }, NOW);
    expect(budget.waitMs(MINT, 'check', NOW)).toBe(120_000);
  });

  it('gives other routes and other mints their own rests', () => {
    const budget = new RequestBudget({ pollGapMs: POLL_GAP_MS });
    budget.record(MINT, 'create', { outcome: 'rate_limited', retryAfterMs: null }, NOW);
    expect(budget.waitMs(MINT, 'read', NOW)).toBe(0);
    expect(budget.waitMs('https://other.example', 'create', NOW)).toBe(0);
  });

  it('does not let an answer that was under way end the rest after a 429', () => {
    const budget = new RequestBudget({ pollGapMs: POLL_GAP_MS });
    budget.record(MINT, 'create', { outcome: 'rate_limited', retryAfterMs: null }, NOW);
    budget.record(MINT, 'create', { outcome: 'created' }, NOW + 10);
    expect(budget.waitMs(MINT, 'create', NOW + 10)).toBe(64_990);
  });

  it('rests longer with each failure, up to a minute, until the mint answers', () => {
    const budget = new RequestBudget({ pollGapMs: POLL_GAP_MS });
    const rests: number[] = [];
    let now = NOW;
    for (let failure = 0; failure < 8; failure += 1) {
      budget.record(MINT, 'create', UNAVAILABLE, now);
      const waitMs = budget.waitMs(MINT, 'create', now);
      rests.push(waitMs);
      now += waitMs;
    }
    expect(rests).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    budget.record(MINT, 'create', { outcome: 'refused' }, now);
    expect(budget.waitMs(MINT, 'create', now)).toBe(0);
    budget.record(MINT, 'create', UNAVAILABLE, now);
    expect(budget.waitMs(MINT, 'create', now)).toBe(1_000);
  });

  it('counts requests that fail together as one failure', () => {
    const budget = new RequestBudget({ pollGapMs: POLL_GAP_MS });
    for (let request = 0; request < 10; request += 1) {
      budget.record(MINT, 'create', UNAVAILABLE, NOW + request);
    }
    expect(budget.waitMs(MINT, 'create', NOW)).toBe(1_000);
  });

  it('forgets the mints that were unused the longest', () => {
    const budget = new RequestBudget({ pollGapMs: POLL_GAP_MS });
    budget.record(MINT, 'create', { outcome: 'rate_limited', retryAfterMs: null }, NOW);
    for (let mint = 0; mint < 5_000; mint += 1) {
      budget.record(`https://${mint}.example`, 'create', UNAVAILABLE, NOW);
    }
    expect(budget.waitMs(MINT, 'create', NOW)).toBe(0);
    expect(budget.waitMs('https://0.example', 'create', NOW)).toBe(1_000);
  });
});
