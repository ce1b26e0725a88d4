import { beforeEach, describe, expect, it } from 'vitest';
import type { CheckQuotesResult, ReadQuoteResult } from '../../src/mints/mint-client.ts';
import type { ObservedState } from '../../src/mints/quote-responses.ts';
import type { SourcedObservation } from '../../src/quotes/observation-recorder.ts';
import type { WatchedQuote } from '../../src/quotes/watched-quote-store.ts';
import { PollQueue } from '../../src/watcher/poll-queue.ts';
import { MIN_POLL_INTERVAL_MS, QuotePoller } from '../../src/watcher/quote-poller.ts';

const MINT_URL = 'https://mint.example';
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The time of both clocks. */
let nowMs: number;
let mint: FakeMint;
let queue: PollQueue;
let poller: QuotePoller;
let covered: Set<string>;

beforeEach(() => {
  nowMs = 1_800_000_000_000;
  mint = new FakeMint();
  covered = new Set();
  queue = new PollQueue({
    isCovered: (quoteId) => covered.has(quoteId),
    clock: () => nowMs,
    monotonicMs: () => nowMs,
  });
  poller = new QuotePoller({
    mintUrl: MINT_URL,
    queue,
    client: mint,
    limiter: mint,
    getMaxBatchSize: async () => mint.maxBatchSize,
    minPollIntervalMs: MIN_POLL_INTERVAL_MS,
    monotonicMs: () => nowMs,
  });
});

describe('QuotePoller schedule', () => {
  it('polls a new quote after its interval, and one from the database immediately', async () => {
    watch(['new'], { isJustCreated: true });
    expect(await poller.poll()).toBeNull();
    watch(['old'], { createdAtMs: nowMs - 5 * HOUR });
    await poller.poll();
    await runFor(8 * SECOND);
    expect(mint.batches).toEqual([['old'], ['new'], ['new']]);
  });

  it('polls a quote from the database immediately, even if a subscription covers it', async () => {
    covered.add('covered');
    watch(['covered'], { createdAtMs: nowMs - 5 * HOUR });
    await poller.poll();
    expect(mint.batches).toEqual([['covered']]);
  });

  it('polls quotes less often if a subscription covers them', async () => {
    covered.add('covered');
    watch(['covered'], { isJustCreated: true });
    await runFor(41 * SECOND);
    expect(mint.batches).toHaveLength(2);
  });

  it('includes quotes that are due soon, but sends no poll for them alone', async () => {
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
    watch(['issued', 'deleted']);
    mint.states.set('issued', 'ISSUED');
    await runFor(SECOND);
    queue.remove('deleted');
    expect(queue.listQuoteIds()).toEqual([]);
    expect(await poller.poll()).toBeNull();
  });

  it('returns how long the most overdue quote has been due', async () => {
    expect(queue.getMaxOverdueMs()).toBe(0);
    watch(['late'], { isJustCreated: true });
    nowMs += 4 * SECOND;
    expect(queue.getMaxOverdueMs()).toBe(0);
    nowMs += 10 * SECOND;
    expect(queue.getMaxOverdueMs()).toBe(10 * SECOND);
    await poller.poll();
    expect(queue.getMaxOverdueMs()).toBe(0);
  });
});

describe('QuotePoller observations', () => {
  it('returns nothing if no state changed', async () => {
    watch(['unpaid']);
    watch(['paid'], { state: 'PAID', paidAtMs: nowMs });
    expect(await poller.poll()).toEqual([]);
    expect(mint.batches).toEqual([['unpaid', 'paid']]);
  });

  it('returns the state that the mint reports', async () => {
    watch(['paid']);
    mint.states.set('paid', 'PAID');
    expect(await poller.poll()).toEqual([
      { quoteId: 'paid', state: 'PAID', source: 'poll', shouldEndWatch: false },
    ]);
  });

  it('drops a response if the state changed after the request', async () => {
    watch(['paid']);
    const answer = mint.hold();
    const polling = poller.poll();
    nowMs += SECOND;
    recordNews([{ quoteId: 'paid', state: 'PAID', source: 'socket' }]);
    answer.resolve();
    expect(await polling).toEqual([]);
  });

  it('reports a payment that the mint reverts once', async () => {
    watch(['paid'], { state: 'PAID', paidAtMs: nowMs });
    mint.states.set('paid', 'UNPAID');
    const news = await runFor(5 * MINUTE);
    expect(mint.batches.length).toBeGreaterThan(10);
    expect(news).toMatchObject([{ quoteId: 'paid', state: 'UNPAID' }]);
    mint.states.set('paid', 'ISSUED');
    expect(await runFor(MINUTE)).toMatchObject([{ state: 'ISSUED' }]);
  });

  it('reports a state again if the database lost it', async () => {
    watch(['paid'], { state: 'PAID', paidAtMs: nowMs });
    expect(await poller.poll()).toEqual([]);
    watch(['paid']);
    mint.states.set('paid', 'PAID');
    expect(await runFor(5 * SECOND)).toMatchObject([{ quoteId: 'paid', state: 'PAID' }]);
  });

  it('ends the watch with the second late response, an hour after the first', async () => {
    watch(['late'], { createdAtMs: nowMs - 5 * DAY });
    expect(await poller.poll()).toEqual([]);
    expect(await runFor(HOUR - MINUTE)).toEqual([]);
    expect(await runFor(3 * HOUR)).toMatchObject([
      { quoteId: 'late', state: 'UNPAID', shouldEndWatch: true },
    ]);
    expect(queue.listQuoteIds()).toEqual([]);
  });

  it('ends the watch of a payment that was not collected for a week', async () => {
    watch(['paid'], { state: 'PAID', paidAtMs: nowMs - 8 * DAY });
    expect(await runFor(DAY)).toMatchObject([
      { quoteId: 'paid', state: 'PAID', shouldEndWatch: true },
    ]);
  });

  it('ends no watch while the mint does not respond', async () => {
    watch(['late'], { createdAtMs: nowMs - 5 * DAY });
    mint.failure = { outcome: 'unavailable', reason: 'timeout' };
    expect(await runFor(5 * HOUR)).toEqual([]);
    expect(queue.listQuoteIds()).toEqual(['late']);
  });
});

describe('QuotePoller batches', () => {
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

  it('process a backlog of 10,000 quotes within seconds, youngest first', async () => {
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

  it('are spaced out if there is no backlog', async () => {
    watch(ids(50), { isJustCreated: true });
    await runFor(MINUTE);
    expect(mint.batches.length).toBeLessThanOrEqual(15);
  });

  it.each([
    ['one id', ['id-3']],
    ['several ids', ['id-3', 'id-4', 'id-99', 'id-150']],
  ])(
    'that are rejected for %s delay neither the other quotes nor a new one',
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

      // From now on the bad ids are read singly, and the others share batches again.
      mint.forgetRequests();
      await runFor(20 * SECOND);
      expect(mint.batches.flat()).not.toContain(badIds[0]);
      expect(new Set(mint.reads)).toEqual(new Set(badIds));
      expect(mint.batches.some((batch) => batch.length > 90)).toBe(true);
    },
  );

  it('include an id again that was unknown to the mint at first', async () => {
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

  it('are replaced by single reads if the mint rejects every batch', async () => {
    mint.batchRejects = () => true;
    watch(ids(8), { isJustCreated: true });
    mint.states.set('id-6', 'PAID');
    expect(await runFor(MINUTE)).toMatchObject([{ quoteId: 'id-6', state: 'PAID' }]);
    mint.forgetRequests();
    await runFor(MINUTE);
    expect(mint.batches).toEqual([]);
    expect(new Set(mint.reads)).toEqual(new Set(ids(8)));
  });

  it('are tried again 15 minutes after the mint lacked the route', async () => {
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

  it('are replaced by single reads if batches fail while reads succeed', async () => {
    mint.batchAnswer = { outcome: 'unavailable', reason: 'status 500' };
    watch(ids(5));
    mint.states.set('id-1', 'PAID');
    expect(await runFor(MINUTE)).toMatchObject([{ quoteId: 'id-1' }]);
    expect(mint.batches).toHaveLength(12);
    expect(poller.isMintUnresponsive).toBe(false);
    mint.forgetRequests();
    await runFor(MINUTE);
    expect(mint.batches).toEqual([]);
  });

  it('continue although several fail in a row', async () => {
    mint.batchAnswer = { outcome: 'unavailable', reason: 'status 500' };
    watch(ids(5));
    await runFor(2 * SECOND);
    mint.batchAnswer = null;
    mint.forgetRequests();
    await runFor(MINUTE);
    expect(mint.batches).not.toEqual([]);
    expect(mint.reads).toEqual([]);
  });

  it('leave an id without a result to a single read', async () => {
    mint.batchOmits = (id) => id === 'id-2';
    watch(ids(4), { isJustCreated: true });
    mint.states.set('id-2', 'PAID');
    expect(await runFor(15 * SECOND)).toMatchObject([{ quoteId: 'id-2', state: 'PAID' }]);
    expect(mint.reads).toEqual(['id-2']);
  });

  it('are not delayed at each poll by an id that cannot be read', async () => {
    mint.batchOmits = (id) => id === 'id-2';
    mint.readFails = (id) => id === 'id-2';
    watch(ids(4));
    await runFor(MINUTE);
    expect(mint.batches.length).toBeGreaterThan(10);
    expect(mint.reads.length).toBeLessThanOrEqual(2);
  });

  it('pause for long while urgent quotes are read singly', async () => {
    watch(ids(3));
    watch(ids(30, 'old'), { createdAtMs: nowMs - 5 * HOUR });
    mint.waits.check = MINUTE;
    mint.states.set('id-2', 'PAID');
    expect(await poller.poll()).toMatchObject([{ quoteId: 'id-2' }]);
    expect(mint.batches).toEqual([]);
    expect(mint.reads).toHaveLength(16);
    expect(mint.reads.slice(0, 3)).toEqual(ids(3));
  });

  it('pause for long while suspects of a rejected batch are read singly', async () => {
    mint.batchRejects = (batch) => batch.includes('id-0');
    watch(ids(4));
    await poller.poll();
    mint.waits.check = HOUR;
    mint.states.set('id-3', 'PAID');
    expect(await runFor(10 * SECOND)).toMatchObject([{ quoteId: 'id-3' }]);
  });

  it('pause briefly without single reads', () => {
    watch(ids(3));
    mint.waits.check = 2 * SECOND;
    expect(poller.getWaitMs()).toBe(2 * SECOND);
  });
});

describe('QuotePoller with a failing mint', () => {
  it.each([
    ['one quote', ['broken-0']],
    ['several quotes', ids(8, 'broken')],
  ])('polls the other quotes if the mint fails for %s', async (_which, broken) => {
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

  it('polls all quotes of a rejected batch if the mint fails for some', async () => {
    mint.batchRejects = (batch) => batch.includes('id-0');
    mint.batchFails = (batch) => batch.includes('id-90') && batch.length > 1 && batch.length < 100;
    mint.readFails = (quoteId) => quoteId === 'id-90';
    watch(ids(100), { createdAtMs: nowMs - 5 * HOUR });
    mint.states.set('id-80', 'PAID');
    let news: SourcedObservation[] = [];
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
    'leaves quotes due if the mint limits %s, and does not treat it as unresponsive',
    async (_what, prepare) => {
      prepare();
      watch(ids(5));
      await runFor(0);
      mint.failure = { outcome: 'rate_limited', retryAfterMs: SECOND };
      nowMs += 20 * SECOND;
      expect(await poller.poll()).toEqual([]);
      expect(poller.isMintUnresponsive).toBe(false);
      mint.failure = null;
      mint.states.set('id-4', 'PAID');
      expect(await runFor(SECOND)).toMatchObject([{ quoteId: 'id-4' }]);
    },
  );

  it('treats the mint as unresponsive until it responds and polls less often', async () => {
    mint.failure = { outcome: 'unavailable', reason: 'timed out' };
    watch(ids(300));
    await runFor(MINUTE);
    expect(poller.isMintUnresponsive).toBe(true);
    expect(mint.batches.length).toBeLessThanOrEqual(18);
    // A slow mint may manage a small batch.
    expect(mint.batches.slice(0, 3).map((batch) => batch.length)).toEqual([100, 50, 25]);

    mint.failure = null;
    mint.forgetRequests();
    await runFor(15 * SECOND);
    expect(poller.isMintUnresponsive).toBe(false);
    expect(new Set(mint.batches.flat()).size).toBe(300);
  });

  it('keeps treating the mint as unresponsive if single reads fail', async () => {
    mint.batchAnswer = { outcome: 'unsupported' };
    watch(ids(10));
    mint.failure = { outcome: 'unavailable', reason: 'timeout' };
    mint.failsBatches = false;
    await runFor(MINUTE);
    expect(poller.isMintUnresponsive).toBe(true);
    expect(mint.reads.length).toBeLessThanOrEqual(18 * 4);
    mint.failure = null;
    mint.states.set('id-9', 'PAID');
    expect(await runFor(MINUTE)).toMatchObject([{ quoteId: 'id-9' }]);
    expect(poller.isMintUnresponsive).toBe(false);
  });

  it('polls every quote soon after the mint recovers, however old the quotes are', async () => {
    watch(ids(5), { createdAtMs: nowMs - 2 * DAY });
    mint.failure = { outcome: 'unavailable', reason: 'timeout' };
    await runFor(10 * MINUTE);
    expect(mint.reads.length).toBeGreaterThan(0);
    mint.failure = null;
    mint.states.set('id-0', 'PAID');
    expect(await runFor(5 * SECOND)).toMatchObject([{ quoteId: 'id-0' }]);
  });

  it('retries one failed read although the mint cannot keep up with all quotes', async () => {
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

  it('reads all other quotes if the mint fails for some single reads', async () => {
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

/** A mint with scripted states and failures. */
class FakeMint {
  readonly states = new Map<string, ObservedState>();
  batches: string[][] = [];
  reads: string[] = [];
  maxBatchSize: number | null = null;
  /** The result of every batch. */
  batchAnswer: CheckQuotesResult | null = null;
  batchRejects: (batch: readonly string[]) => boolean = () => false;
  batchOmits: (quoteId: string) => boolean = () => false;
  batchFails: (batch: readonly string[]) => boolean = () => false;
  readFails: (quoteId: string) => boolean = () => false;
  /** The result of every request; of batches only if `failsBatches`. */
  failure: (CheckQuotesResult & ReadQuoteResult) | null = null;
  failsBatches = true;
  readonly waits = { check: 0, read: 0 };
  #held: Promise<void> = Promise.resolve();

  /** Delays computed results until the promise resolves. */
  hold(): PromiseWithResolvers<void> {
    const held = Promise.withResolvers<void>();
    this.#held = held.promise;
    return held;
  }

  forgetRequests(): void {
    this.batches = [];
    this.reads = [];
  }

  getWaitMs(_mintUrl: string, route: 'check' | 'read'): number {
    return this.waits[route];
  }

  async checkQuotes(_mintUrl: string, quoteIds: readonly string[]): Promise<CheckQuotesResult> {
    this.batches.push([...quoteIds]);
    const failure = this.failsBatches ? this.failure : null;
    const answer = failure ?? this.batchAnswer ?? this.#checked(quoteIds);
    await this.#held;
    return answer;
  }

  async readQuote(_mintUrl: string, quoteId: string): Promise<ReadQuoteResult> {
    this.reads.push(quoteId);
    const state = this.states.get(quoteId);
    if (this.failure !== null || this.readFails(quoteId)) {
      return this.failure ?? { outcome: 'unavailable', reason: 'status 500' };
    }
    return state === undefined
      ? { outcome: 'not_found' }
      : { outcome: 'found', observation: { quoteId, state } };
  }

  #checked(quoteIds: readonly string[]): CheckQuotesResult {
    if (this.batchFails(quoteIds)) {
      return { outcome: 'unavailable', reason: 'status 500' };
    }
    if (this.batchRejects(quoteIds)) {
      return { outcome: 'rejected', status: 400, detail: 'unknown quote' };
    }
    const observations = quoteIds.flatMap((quoteId) => {
      const state = this.states.get(quoteId);
      return state === undefined || this.batchOmits(quoteId) ? [] : [{ quoteId, state }];
    });
    return { outcome: 'found', observations };
  }
}

let lastRow = 0;

/** Watches quotes that have the same state at the mint. */
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
  queue.add(quotes, isJustCreated);
  for (const { quoteId, state } of quotes) {
    if (!isUnknown && state !== 'EXPIRED') {
      mint.states.set(quoteId, state);
    }
  }
}

function ids(count: number, name = 'id'): string[] {
  return Array.from({ length: count }, (_, index) => `${name}-${index}`);
}

/** Advances time, polls whenever the poller allows it, and records the observations. @returns the observations */
async function runFor(ms: number): Promise<SourcedObservation[]> {
  const news: SourcedObservation[] = [];
  const untilMs = nowMs + ms;
  // Long runs use larger steps.
  const stepMs = Math.max(250, ms / 2_000);
  while (true) {
    if (poller.getWaitMs() === 0) {
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

/** Simulates recording: a payment is never reverted, and an issued quote is no longer watched. */
function recordNews(news: readonly SourcedObservation[]): void {
  queue.applyRecorded(
    news.map(({ quoteId, state, source, shouldEndWatch }) => ({
      quoteId,
      state: state === 'UNPAID' ? 'PAID' : state,
      paidAtMs: nowMs,
      isWatched: state !== 'ISSUED' && shouldEndWatch !== true,
      hasStateChanged: true,
      source,
    })),
  );
}
