import { beforeEach, expect, it, vi } from 'vitest';
import type { Db } from '../../../src/database/transaction.ts';
import { createLogger } from '../../../src/log.ts';
import type { QuoteUpdate } from '../../../src/quotes/process-notifications.ts';
import { QuoteSubscribers } from '../../../src/quotes/quote-subscribers.ts';
import { UpdateSender } from '../../../src/quotes/update-sender.ts';
import { TestClock } from '../../helpers/test-clock.ts';

const NOW_MS = 1_800_000_000_300;
const NEXT_SECOND_MS = 1_800_000_001_000;

let sentQuoteIds: string[];
let sender: UpdateSender;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  sentQuoteIds = [];
  const subscribers = new QuoteSubscribers();
  subscribers.add('alice', {
    sendUpdate: (quoteId) => sentQuoteIds.push(quoteId) > 0,
    evict: () => undefined,
  });
  sender = new UpdateSender({
    db: {} as Db,
    subscribers,
    clock: new TestClock(NOW_MS).now,
    log: createLogger('silent'),
  });
  return () => vi.useRealTimers();
});

it.each([
  ['is listed', null],
  ['was listed before', NOW_MS],
  ['was recorded before the clock was set back', NOW_MS + 3_600_000],
])('sends an update at once if the payment %s', (_case, listedAtMs) => {
  sender.send(createUpdate({ listedAtMs }));
  expect(sentQuoteIds).toEqual(['one']);
});

it('sends one update for each payment of the next second when it arrives, even if a state changed before', () => {
  sender.send(createUpdate({ id: 1, quoteId: 'one' }));
  sender.send(createUpdate({ id: 2, quoteId: 'two' }));
  sender.send(createUpdate({ id: 1, quoteId: 'one' }));
  vi.advanceTimersByTime(699);
  expect(sentQuoteIds).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(sentQuoteIds.toSorted()).toEqual(['one', 'two']);
});

it('sends nothing after it was stopped', () => {
  sender.send(createUpdate());
  void sender.stop();
  vi.advanceTimersByTime(60_000);
  expect(sentQuoteIds).toEqual([]);
  expect(vi.getTimerCount()).toBe(0);
});

function createUpdate(overrides: Partial<QuoteUpdate> = {}): QuoteUpdate {
  return { id: 1, pubkey: 'alice', quoteId: 'one', listedAtMs: NEXT_SECOND_MS, ...overrides };
}
