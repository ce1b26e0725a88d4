import { beforeEach, expect, it, vi } from 'vitest';
import { createLogger } from '../../../src/log.ts';
import type { QuoteUpdate } from '../../../src/quotes/process-notifications.ts';
import { QuoteSubscribers, UpdateSender } from '../../../src/quotes/quote-updates.ts';
import { TestClock } from '../../helpers/test-clock.ts';

const NOW_MS = 1_800_000_000_000;

/** A payment is listed 5 s before its second. */
const LISTED_IN_3_S = NOW_MS + 8_000;

let clock: TestClock;
let sentQuoteIds: string[];
let sender: UpdateSender;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  clock = new TestClock(NOW_MS);
  sentQuoteIds = [];
  const subscribers = new QuoteSubscribers();
  subscribers.add('alice', {
    sendUpdate: (quoteId) => sentQuoteIds.push(quoteId) > 0,
    evict: () => undefined,
  });
  sender = new UpdateSender({
    events: { listChangedSince: async () => [] },
    subscribers,
    onUpdateSent: () => undefined,
    clock: clock.now,
    log: createLogger('silent'),
  });
  return () => vi.useRealTimers();
});

it('sends an update at once if the payment is listed', () => {
  sender.send(createUpdate(NOW_MS));
  expect(sentQuoteIds).toHaveLength(1);
});

it('sends an update at once if the clock was set back since the payment', () => {
  sender.send(createUpdate(NOW_MS + 3_600_000));
  expect(sentQuoteIds).toHaveLength(1);
});

it('sends one update when the payment is listed, even if its state changed before', () => {
  sender.send(createUpdate(LISTED_IN_3_S));
  sender.send(createUpdate(LISTED_IN_3_S));
  pass(2_999);
  expect(sentQuoteIds).toHaveLength(0);
  pass(1);
  expect(sentQuoteIds).toHaveLength(1);
  sender.send(createUpdate(LISTED_IN_3_S));
  expect(sentQuoteIds).toHaveLength(2);
});

it('waits longer if the clock runs slower than the timer', () => {
  sender.send(createUpdate(LISTED_IN_3_S));
  clock.advance(2_970);
  vi.advanceTimersByTime(3_000);
  expect(sentQuoteIds).toHaveLength(0);
  pass(30);
  expect(sentQuoteIds).toHaveLength(1);
});

it('sends nothing after it was stopped', () => {
  sender.send(createUpdate(LISTED_IN_3_S));
  sender.stop();
  pass(60_000);
  expect(sentQuoteIds).toHaveLength(0);
  expect(vi.getTimerCount()).toBe(0);
});

function createUpdate(paidAtMs: number): QuoteUpdate {
  return { id: 1, pubkey: 'alice', quoteId: 'a quote', paidAtMs };
}

function pass(ms: number): void {
  clock.advance(ms);
  vi.advanceTimersByTime(ms);
}
