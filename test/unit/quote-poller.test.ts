import { beforeEach, describe, expect, it } from 'vitest';
import type { CheckQuotesAnswer, ReadQuoteAnswer } from '../../src/mints/mint-client.ts';
import type { ObservedState } from '../../src/mints/quote-answer.ts';
import type { WatchedQuote } from '../../src/quotes/quote-watch-store.ts';
import type { NewObservation } from '../../src/quotes/record-observations.ts';
import { POLL_GAP_MS, QuotePoller } from '../../src/watcher/quote-poller.ts';

const MINT_URL = 'https://mint.example';
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Both clocks: no test sets one of them back. */
let nowMs: number;
let mint: FakeMint;
let poller: QuotePoller;
let covered: Set<string>;

beforeEach(() => {
  nowMs = 1_800_000_000_000;
  mint = new FakeMint();
  covered = new Set();
  poller = new QuotePoller({
    mintUrl: MINT_URL,
    client: mint,
    limiter: mint,
    maxBatchSize: async () => mint.maxBatchSize,
    isCovered: (quoteId) => covered.has(quoteId),
    pollGapMs: POLL_GAP_MS,
    clock: () => nowMs,
    monotonicMs: () => nowMs,
  });
});

describe('the schedule', () => {
  it('polls a new quote after its interval, and one from the database at once', async () => {
    watch(['new'], { isJustCreated: true });
    expect(await poller.poll()).toBeNull();
    watch(['old'], { createdAtMs: nowMs - 5 * HOUR });
    await poller.poll();
    await runFor(8 * SECOND);
    expect(mint.batches).toEqual([['old'], ['new'], ['new']]);
  });

  it('polls a quote from the database at once, although a subscription covers it', async () => {
    covered.add('covered');
    watch(['covered'], { createdAtMs: nowMs - 5 * HOUR });
    await poller.poll();
    expect(mint.batches).toEqual([['covered']]);
  });

  it('polls quotes that are covered by a subscription less often', async () => {
    covered.add('covered');
    watch(['covered'], { isJustCreated: true });
    await runFor(41 * SECOND);
    expect(mint.batches).toHaveLength(2);
  });

  it('includes quotes that will be due soon, and sends no poll for them alone', async () => {
    watch(['first'], { isJustCreated: true });
    nowMs += 1.5 * SECOND;
    watch(['second'], { isJustCreated: true });
    nowMs += 2 * SECOND;
    expect(await poller.poll()).toBeNull();
    nowMs += 0.5 * SECOND;
    await poller.poll();
    expect(mint.batches).toEqual([['first', 'second']]);
  });

  it('polls once just after the expiry', async () => {
    covered.add('expiring');
    watch(['expiring'], { createdAtMs: nowMs - HOUR, isJustCreated: true });
    await runFor(4.5 * SECOND);
    expect(mint.batches).toHaveLength(0);
    await runFor(30 * SECOND);
    expect(mint.batches).toHaveLength(1);
  });

  it('stops polling a quote that is no longer watched', async () => {
    watch(['collected', 'deleted']);
    mint.states.set('collected', 'ISSUED');
    await runFor(SECOND);
    poller.forget('deleted');
    expect(poller.quoteIds()).toEqual([]);
    expect(await poller.poll()).toBeNull();
  });

  it('tells how long the most overdue quote has been due', async () => {
    expect(poller.overdueMs()).toBe(0);
    watch(['late'], { isJustCreated: true });
    nowMs += 4 * SECOND;
    expect(poller.overdueMs()).toBe(0);
    nowMs += 10 * SECOND;
    expect(poller.overdueMs()).toBe(10 * SECOND);
    await poller.poll();
    expect(poller.overdueMs()).toBe(0);
  });
});

describe('answers', () => {
  it('are not returned without news', async () => {
    watch(['unpaid']);
    watch(['paid'], { state: 'PAID', paidAtMs: nowMs });
    expect(await poller.poll()).toEqual([]);
    expect(mint.batches).toEqual([['unpaid', 'paid']]);
  });

  it('are returned with what the mint reports of the quote', async () => {
    watch(['paid']);
    mint.states.set('paid', 'PAID');
    expect(await poller.poll()).toEqual([
      { quoteId: 'paid', state: 'PAID', source: 'poll', endsWatch: false },
    ]);
  });

  it('are dropped if the state changed after the mint was asked', async () => {
    watch(['paid']);
    const answer = mint.hold();
    const polling = poller.poll();
    nowMs += SECOND;
    recordNews([{ quoteId: 'paid', state: 'PAID', source: 'socket' }]);
    answer.resolve();
    expect(await polling).toEqual([]);
  });

  it('are reported once if the mint takes a payment back', async () => {
    watch(['paid'], { state: 'PAID', paidAtMs: nowMs });
    mint.states.set('paid', 'UNPAID');
    const news = await runFor(5 * MINUTE);
    expect(mint.batches.length).toBeGreaterThan(10);
    expect(news).toMatchObject([{ quoteId: 'paid', state: 'UNPAID' }]);
    mint.states.set('paid', 'ISSUED');
    expect(await runFor(MINUTE)).toMatchObject([{ state: 'ISSUED' }]);
  });

  it('are news again if the database lost what was recorded', async () => {
    watch(['paid'], { state: 'PAID', paidAtMs: nowMs });
    expect(await poller.poll()).toEqual([]);
    watch(['paid']);
    mint.states.set('paid', 'PAID');
    expect(await runFor(5 * SECOND)).toMatchObject([{ quoteId: 'paid', state: 'PAID' }]);
  });

  it('end a watch with the second one that comes too late, an hour after the first', async () => {
    watch(['late'], { createdAtMs: nowMs - 5 * DAY });
    expect(await poller.poll()).toEqual([]);
    expect(await runFor(HOUR - MINUTE)).toEqual([]);
    expect(await runFor(3 * HOUR)).toMatchObject([
      { quoteId: 'late', state: 'UNPAID', endsWatch: true },
    ]);
    expect(poller.quoteIds()).toEqual([]);
  });

  it('end the watch over a payment that was not collected for a week', async () => {
    watch(['paid'], { state: 'PAID', paidAtMs: nowMs - 8 * DAY });
    expect(await runFor(DAY)).toMatchObject([{ quoteId: 'paid', state: 'PAID', endsWatch: true }]);
  });

  it('end no watch while the mint does not answer', async () => {
    watch(['late'], { createdAtMs: nowMs - 5 * DAY });
    mint.failure = { outcome: 'unavailable', reason: 'timeout' };
    expect(await runFor(5 * HOUR)).toEqual([]);
    expect(poller.quoteIds()).toEqual(['late']);
  });
});

describe('batches', () => {
  it.each([
    ['the size that the mint advertises', 7, [7, 7, 6]],
    ['a hundred if the mint advertises nothing', null, [20]],
  ])('have at most %s', async (_size, maxBatchSize, sizes) => {
    mint.maxBatchSize = maxBatchSize;
    watch(ids(20), { isJustCreated: true });
    nowMs += 4 * SECOND;
    await runFor(SECOND);
    expect(mint.batches.map((batch) => batch.length)).toEqual(sizes);
  });

  it('work off a backlog of 10,000 quotes within seconds, the youngest first', async () => {
    mint.maxBatchSize = 1_000;
    watch(ids(10_000), { createdAtMs: nowMs - 5 * HOUR });
    watch(['young']);
    mint.states.set('young', 'PAID');
    mint.states.set('id-77', 'PAID');
    const news = await runFor(5 * SECOND);
    expect(news.map(({ quoteId }) => quoteId)).toEqual(['young', 'id-77']);
    expect(mint.batches[0]?.[0]).toBe('young');
    expect(new Set(mint.batches.flat()).size).toBe(10_001);
    expect(mint.batches.length).toBeLessThan(20);
  });

  it('keep a gap between them if nothing is left over', async () => {
    watch(ids(50), { isJustCreated: true });
    await runFor(MINUTE);
    expect(mint.batches.length).toBeLessThanOrEqual(15);
  });

  it.each([
    ['one id', ['id-3']],
    ['several ids', ['id-3', 'id-4', 'id-99', 'id-150']],
  ])(
    'that are rejected for %s delay neither the others nor a new quote',
    async (_which, badIds) => {
      mint.batchRejects = (batch) => batch.some((id) => badIds.includes(id));
      watch(badIds, { isUnknown: true });
      watch(ids(200).filter((id) => !badIds.includes(id)));
      mint.states.set('id-2', 'PAID');
      mint.states.set('id-151', 'PAID');
      await poller.poll();
      nowMs += 1;
      watch(['new']);
      mint.states.set('new', 'PAID');
      const firstNews = await runFor(2 * SECOND);
      expect(firstNews.map(({ quoteId }) => quoteId)).toContain('new');
      const news = [...firstNews, ...(await runFor(20 * SECOND))];
      expect(news.map(({ quoteId }) => quoteId).toSorted()).toEqual(['id-151', 'id-2', 'new']);

      // From now on the bad ids are read alone, and the rest shares batches again.
      mint.forgetRequests();
      await runFor(20 * SECOND);
      expect(mint.batches.flat()).not.toContain(badIds[0]);
      expect(new Set(mint.reads)).toEqual(new Set(badIds));
      expect(mint.batches.some((batch) => batch.length > 90)).toBe(true);
    },
  );

  it('include an id again that the mint did not know at first', async () => {
    mint.batchRejects = (batch) => batch.some((id) => !mint.states.has(id));
    watch(ids(4));
    watch(['restored'], { isUnknown: true });
    await runFor(10 * SECOND);
    expect(mint.reads).toContain('restored');
    mint.states.set('restored', 'UNPAID');
    await runFor(10 * SECOND);
    mint.forgetRequests();
    await runFor(10 * SECOND);
    expect(mint.reads).toEqual([]);
    expect(mint.batches[0]).toContain('restored');
  });

  it('are given up for single reads if the mint rejects every one of them', async () => {
    mint.batchRejects = () => true;
    watch(ids(8), { isJustCreated: true });
    mint.states.set('id-6', 'PAID');
    expect(await runFor(MINUTE)).toMatchObject([{ quoteId: 'id-6', state: 'PAID' }]);
    mint.forgetRequests();
    await runFor(MINUTE);
    expect(mint.batches).toEqual([]);
    expect(new Set(mint.reads)).toEqual(new Set(ids(8)));
  });

  it('are tried again a quarter of an hour after the mint did not know the route', async () => {
    mint.batchAnswer = { outcome: 'unsupported' };
    watch(ids(5));
    mint.states.set('id-1', 'PAID');
    expect(await runFor(SECOND)).toMatchObject([{ quoteId: 'id-1' }]);
    expect(mint.reads.toSorted()).toEqual(ids(5));
    await runFor(14 * MINUTE);
    expect(mint.batches).toHaveLength(1);
    mint.batchAnswer = null;
    mint.forgetRequests();
    await runFor(2 * MINUTE);
    expect(mint.batches.length).toBeGreaterThan(0);
  });

  it('are given up for single reads if they fail while reads work', async () => {
    mint.batchAnswer = { outcome: 'unavailable', reason: 'status 500' };
    watch(ids(5));
    mint.states.set('id-1', 'PAID');
    expect(await runFor(MINUTE)).toMatchObject([{ quoteId: 'id-1' }]);
    expect(mint.batches).toHaveLength(12);
    expect(poller.isMintSilent).toBe(false);
    mint.forgetRequests();
    await runFor(MINUTE);
    expect(mint.batches).toEqual([]);
  });

  it('are kept although some fail in a row', async () => {
    mint.batchAnswer = { outcome: 'unavailable', reason: 'status 500' };
    watch(ids(5));
    await runFor(2 * SECOND);
    mint.batchAnswer = null;
    mint.forgetRequests();
    await runFor(MINUTE);
    expect(mint.batches).not.toEqual([]);
    expect(mint.reads).toEqual([]);
  });

  it('leave an id that has no answer to a single read', async () => {
    mint.batchOmits = (id) => id === 'id-2';
    watch(ids(4), { isJustCreated: true });
    mint.states.set('id-2', 'PAID');
    expect(await runFor(15 * SECOND)).toMatchObject([{ quoteId: 'id-2', state: 'PAID' }]);
    expect(mint.reads).toEqual(['id-2']);
  });

  it('do not wait at each poll for an id that cannot be read', async () => {
    mint.batchOmits = (id) => id === 'id-2';
    mint.readFails = (id) => id === 'id-2';
    watch(ids(4));
    await runFor(MINUTE);
    expect(mint.batches.length).toBeGreaterThan(10);
    expect(mint.reads.length).toBeLessThanOrEqual(2);
  });

  it('rest for long while urgent quotes are read alone', async () => {
    watch(ids(3));
    watch(ids(30, 'old'), { createdAtMs: nowMs - 5 * HOUR });
    mint.waits.check = MINUTE;
    mint.states.set('id-2', 'PAID');
    expect(await poller.poll()).toMatchObject([{ quoteId: 'id-2' }]);
    expect(mint.batches).toEqual([]);
    expect(mint.reads).toHaveLength(16);
    expect(mint.reads.slice(0, 3)).toEqual(ids(3));
  });

  it('rest for long while suspects of a rejected batch are read alone', async () => {
    mint.batchRejects = (batch) => batch.includes('id-0');
    watch(ids(4));
    await poller.poll();
    mint.waits.check = HOUR;
    mint.states.set('id-3', 'PAID');
    expect(await runFor(10 * SECOND)).toMatchObject([{ quoteId: 'id-3' }]);
  });

  it('rest for a moment without single reads', () => {
    watch(ids(3));
    mint.waits.check = 2 * SECOND;
    expect(poller.waitMs()).toBe(2 * SECOND);
  });
});

describe('a mint that fails', () => {
  it.each([
    ['one quote', ['broken-0']],
    ['several quotes', ids(8, 'broken')],
  ])('for %s is polled about the others', async (_which, broken) => {
    mint.batchFails = (batch) => batch.some((id) => broken.includes(id));
    mint.readFails = (quoteId) => broken.includes(quoteId);
    watch(broken);
    watch(ids(50), { createdAtMs: nowMs - 5 * HOUR });
    nowMs += 5 * SECOND;
    watch(['young']);
    mint.states.set('young', 'PAID');
    mint.states.set('id-30', 'PAID');
    const news = await runFor(2 * MINUTE);
    expect(news.map(({ quoteId }) => quoteId).toSorted()).toEqual(['id-30', 'young']);
    mint.states.set('young', 'ISSUED');
    expect(await runFor(2 * MINUTE)).toMatchObject([{ quoteId: 'young', state: 'ISSUED' }]);
    mint.readFails = () => false;
    mint.states.set('broken-0', 'PAID');
    expect(await runFor(2 * MINUTE)).toMatchObject([{ quoteId: 'broken-0' }]);
  });

  it('for a part of a rejected batch is polled about all of it', async () => {
    mint.batchRejects = (batch) => batch.includes('id-0');
    mint.batchFails = (batch) => batch.includes('id-90') && batch.length > 1 && batch.length < 100;
    mint.readFails = (quoteId) => quoteId === 'id-90';
    watch(ids(100), { createdAtMs: nowMs - 5 * HOUR });
    mint.states.set('id-80', 'PAID');
    let news: NewObservation[] = [];
    for (let round = 0; round < 30; round += 1) {
      // New quotes keep the mint's other batches successful.
      watch([`new-${round}`]);
      news = [...news, ...(await runFor(2 * SECOND))];
    }
    expect(news).toMatchObject([{ quoteId: 'id-80', state: 'PAID' }]);
  });

  it.each([
    ['batches', () => {}],
    ['single reads', () => Object.assign(mint, { batchAnswer: { outcome: 'unsupported' } })],
  ])(
    'leaves quotes due when it limits %s, and does not count as silent',
    async (_what, prepare) => {
      prepare();
      watch(ids(5));
      await runFor(0);
      mint.failure = { outcome: 'rate_limited', retryAfterMs: SECOND };
      nowMs += 20 * SECOND;
      expect(await poller.poll()).toEqual([]);
      expect(poller.isMintSilent).toBe(false);
      mint.failure = null;
      mint.states.set('id-4', 'PAID');
      expect(await runFor(SECOND)).toMatchObject([{ quoteId: 'id-4' }]);
    },
  );

  it('is silent until it answers, and is asked less often meanwhile', async () => {
    mint.failure = { outcome: 'unavailable', reason: 'timed out' };
    watch(ids(300));
    await runFor(MINUTE);
    expect(poller.isMintSilent).toBe(true);
    expect(mint.batches.length).toBeLessThanOrEqual(18);
    // A slow mint may manage a small batch.
    expect(mint.batches.slice(0, 3).map((batch) => batch.length)).toEqual([100, 50, 25]);

    mint.failure = null;
    mint.forgetRequests();
    await runFor(15 * SECOND);
    expect(poller.isMintSilent).toBe(false);
    expect(new Set(mint.batches.flat()).size).toBe(300);
  });

  it('stays silent when it fails single reads', async () => {
    mint.batchAnswer = { outcome: 'unsupported' };
    watch(ids(10));
    mint.failure = { outcome: 'unavailable', reason: 'timeout' };
    mint.failsBatches = false;
    await runFor(MINUTE);
    expect(poller.isMintSilent).toBe(true);
    expect(mint.reads.length).toBeLessThanOrEqual(18 * 4);
    mint.failure = null;
    mint.states.set('id-9', 'PAID');
    expect(await runFor(MINUTE)).toMatchObject([{ quoteId: 'id-9' }]);
    expect(poller.isMintSilent).toBe(false);
  });

  it('is asked about everything soon after it is back, however old the quotes are', async () => {
    watch(ids(5), { createdAtMs: nowMs - 2 * DAY });
    mint.failure = { outcome: 'unavailable', reason: 'timeout' };
    await runFor(10 * MINUTE);
    expect(mint.reads.length).toBeGreaterThan(0);
    mint.failure = null;
    mint.states.set('id-0', 'PAID');
    expect(await runFor(5 * SECOND)).toMatchObject([{ quoteId: 'id-0' }]);
  });

  it('for one read is asked about that quote again while it has more quotes than it can answer', async () => {
    mint.batchAnswer = { outcome: 'unsupported' };
    watch(ids(600));
    mint.readFails = (quoteId) => quoteId === 'id-0';
    while (!mint.reads.includes('id-0')) {
      await runFor(SECOND);
    }
    mint.readFails = () => false;
    mint.states.set('id-0', 'PAID');
    expect(await runFor(2 * MINUTE)).toMatchObject([{ quoteId: 'id-0' }]);
  });

  it('for single quotes only still has all others read', async () => {
    mint.batchAnswer = { outcome: 'unsupported' };
    watch(ids(8, 'failing'), { createdAtMs: nowMs - 2 * DAY });
    watch(ids(8), { isJustCreated: true });
    mint.readFails = (quoteId) => quoteId.startsWith('failing');
    await runFor(MINUTE);
    mint.states.set('id-0', 'PAID');
    expect(await runFor(20 * SECOND)).toMatchObject([{ quoteId: 'id-0' }]);
    expect(new Set(mint.reads).size).toBe(16);
  });
});

/** A mint that knows the state of each quote, and fails as a test says. */
class FakeMint {
  readonly states = new Map<string, ObservedState>();
  batches: string[][] = [];
  reads: string[] = [];
  maxBatchSize: number | null = null;
  /** Answers every batch like this. */
  batchAnswer: CheckQuotesAnswer | null = null;
  batchRejects: (batch: readonly string[]) => boolean = () => false;
  batchOmits: (quoteId: string) => boolean = () => false;
  batchFails: (batch: readonly string[]) => boolean = () => false;
  readFails: (quoteId: string) => boolean = () => false;
  /** Answers every request like this; batches only if `failsBatches`. */
  failure: (CheckQuotesAnswer & ReadQuoteAnswer) | null = null;
  failsBatches = true;
  readonly waits = { check: 0, read: 0 };
  #held: Promise<void> = Promise.resolve();

  /** Delays answers that were decided on until the promise resolves. */
  hold(): PromiseWithResolvers<void> {
    const held = Promise.withResolvers<void>();
    this.#held = held.promise;
    return held;
  }

  forgetRequests(): void {
    this.batches = [];
    this.reads = [];
  }

  waitMs(_mintUrl: string, route: 'check' | 'read'): number {
    return this.waits[route];
  }

  async checkQuotes(_mintUrl: string, quoteIds: readonly string[]): Promise<CheckQuotesAnswer> {
    this.batches.push([...quoteIds]);
    const failure = this.failsBatches ? this.failure : null;
    const answer = failure ?? this.batchAnswer ?? this.#checked(quoteIds);
    await this.#held;
    return answer;
  }

  async readQuote(_mintUrl: string, quoteId: string): Promise<ReadQuoteAnswer> {
    this.reads.push(quoteId);
    const state = this.states.get(quoteId);
    if (this.failure !== null || this.readFails(quoteId)) {
      return this.failure ?? { outcome: 'unavailable', reason: 'status 500' };
    }
    return state === undefined
      ? { outcome: 'not_found' }
      : { outcome: 'found', observation: { quoteId, state } };
  }

  #checked(quoteIds: readonly string[]): CheckQuotesAnswer {
    if (this.batchFails(quoteIds)) {
      return { outcome: 'unavailable', reason: 'status 500' };
    }
    if (this.batchRejects(quoteIds)) {
      return { outcome: 'refused', status: 400, detail: 'unknown quote' };
    }
    const observations = quoteIds.flatMap((quoteId) => {
      const state = this.states.get(quoteId);
      return state === undefined || this.batchOmits(quoteId) ? [] : [{ quoteId, state }];
    });
    return { outcome: 'found', observations };
  }
}

let lastRow = 0;

/** Watches quotes that the mint knows in the same state. */
function watch(
  quoteIds: readonly string[],
  given: Partial<WatchedQuote> & { isJustCreated?: boolean; isUnknown?: boolean } = {},
): void {
  const { isJustCreated = false, isUnknown = false, ...changes } = given;
  const quotes = quoteIds.map((quoteId): WatchedQuote => {
    lastRow += 1;
    const createdAtMs = changes.createdAtMs ?? nowMs;
    const expiresAtMs = createdAtMs + HOUR;
    const unpaid = { state: 'UNPAID' as const, createdAtMs, expiresAtMs, paidAtMs: null };
    return { id: lastRow, quoteId, ...unpaid, ...changes };
  });
  poller.add(quotes, isJustCreated);
  for (const { quoteId, state } of quotes) {
    if (!isUnknown && state !== 'EXPIRED') {
      mint.states.set(quoteId, state);
    }
  }
}

function ids(count: number, name = 'id'): string[] {
  return Array.from({ length: count }, (_, index) => `${name}-${index}`);
}

/** Lets time pass, polls whenever the poller can, and records the news. @returns the news */
async function runFor(ms: number): Promise<NewObservation[]> {
  const news: NewObservation[] = [];
  const untilMs = nowMs + ms;
  // Long runs in larger steps.
  const stepMs = Math.max(250, ms / 2_000);
  while (true) {
    if (poller.waitMs() === 0) {
      const found = (await poller.poll()) ?? [];
      recordNews(found);
      news.push(...found);
    }
    if (nowMs >= untilMs) {
      return news;
    }
    nowMs = Math.min(nowMs + stepMs, untilMs);
  }
}

/** What recording does: a payment is never taken back, and one that is collected needs no watch. */
function recordNews(news: readonly NewObservation[]): void {
  poller.update(
    news.map(({ quoteId, state, source, endsWatch }) => ({
      quoteId,
      state: state === 'UNPAID' ? 'PAID' : state,
      paidAtMs: nowMs,
      isWatched: state !== 'ISSUED' && endsWatch !== true,
      isNews: true,
      source,
    })),
  );
}
