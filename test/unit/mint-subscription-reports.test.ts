import { describe, expect, it } from 'vitest';
import type { ObservedState } from '../../src/domain/quote.ts';
import { SubscriptionReports } from '../../src/mint/subscription-reports.ts';

const NOW = 1_800_000_000_000;

describe('what a mint says of a quote', () => {
  it('is news, but for what it said last and for quotes that it was not asked about', () => {
    const told = teller(confirmed(['a']));
    expect([told('a', 'UNPAID'), told('a', 'UNPAID')]).toEqual(['news', 'repeated']);
    expect([told('a', 'PAID'), told('a', 'PAID')]).toEqual(['told_first', 'repeated']);
    expect(told('stranger', 'PAID')).toBe('unasked');
  });

  it('came before the polls where a quote moved on that no poll had brought so far', () => {
    const reports = confirmed(['a', 'b', 'c']);
    const told = teller(reports);
    expect(told('a', 'PAID')).toBe('news');
    told('b', 'UNPAID');
    reports.polled('b', 'PAID');
    expect([told('b', 'PAID'), told('b', 'ISSUED')]).toEqual(['news', 'told_first']);
    told('c', 'UNPAID');
    expect([told('c', 'PAID'), told('c', 'UNPAID')]).toEqual(['told_first', 'news']);
    expect([told('c', 'PAID'), told('c', 'INFLIGHT')]).toEqual(['news', 'news']);
  });

  it('is too much after 32 times, and then the quote is covered no longer', () => {
    const reports = confirmed(['a', 'b']);
    const told = teller(reports);
    for (let count = 0; count < 16; count += 1) {
      told('a', 'INFLIGHT');
      told('a', 'PAID');
    }
    expect([told('a', 'ISSUED'), told('b', 'UNPAID')]).toEqual(['excess', 'news']);
    expect([reports.covers('a'), reports.covers('b')]).toEqual([false, true]);
    expect(reports.lacks('a', 'ISSUED', NOW)).toBe(false);
  });
});

describe('what a mint turned away', () => {
  it('may be subscribed again, which makes no more of it', () => {
    const reports = new SubscriptionReports();
    reports.add(['a', 'b']).isTurnedAway = true;
    reports.add(['c']);
    expect(['a', 'b', 'c', 'd'].map((id) => reports.has(id))).toEqual([false, false, true, false]);
    reports.add(['a', 'b']).confirmedAt = NOW;
    expect([reports.has('a'), reports.covers('a'), reports.size]).toEqual([true, true, 3]);
  });
});

describe('what a mint should have told', () => {
  it('is a payment and its collection, and not the moments between', () => {
    const reports = confirmed(['a']);
    const told = teller(reports);
    told('a', 'UNPAID');
    expect(lacking(reports, 'a')).toEqual({
      UNPAID: false,
      INFLIGHT: true,
      PAID: true,
      ISSUED: true,
    });
    told('a', 'PAID');
    expect(lacking(reports, 'a')).toEqual({
      UNPAID: false,
      INFLIGHT: false,
      PAID: false,
      ISSUED: true,
    });
    told('a', 'ISSUED');
    told('a', 'PAID');
    expect(reports.lacks('a', 'ISSUED', NOW)).toBe(false);
  });

  it('is nothing of quotes that it did not confirm, or only just', () => {
    const reports = new SubscriptionReports();
    const lot = reports.add(['a']);
    expect([reports.covers('a'), reports.lacks('a', 'PAID', NOW)]).toEqual([false, false]);
    lot.confirmedAt = NOW;
    expect([reports.lacks('a', 'PAID', NOW - 1), reports.lacks('a', 'PAID', NOW)]).toEqual([
      false,
      true,
    ]);
    expect(reports.lacks('stranger', 'PAID', NOW)).toBe(false);
  });

  it('is not a first word that was lost among those of many', () => {
    const reports = confirmed(['a', 'lost']);
    expect(reports.lacks('lost', 'PAID', NOW)).toBe(true);
    teller(reports)('a', 'UNPAID');
    expect(reports.lacks('lost', 'PAID', NOW)).toBe(false);
    reports.add(['later']).confirmedAt = NOW;
    expect(reports.lacks('later', 'PAID', NOW)).toBe(true);
  });
});

function confirmed(quoteIds: string[]): SubscriptionReports {
  const reports = new SubscriptionReports();
  reports.add(quoteIds).confirmedAt = NOW;
  return reports;
}

function teller(reports: SubscriptionReports) {
  return (quoteId: string, state: ObservedState) => reports.take({ quoteId, state });
}

function lacking(reports: SubscriptionReports, quoteId: string) {
  const states = ['UNPAID', 'INFLIGHT', 'PAID', 'ISSUED'] as const;
  return Object.fromEntries(states.map((state) => [state, reports.lacks(quoteId, state, NOW)]));
}
