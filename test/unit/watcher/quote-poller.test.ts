import { beforeEach, describe, expect, it } from 'vitest';
import { OPERATOR_MINT_LIMITS } from '../../../src/mints/limits.ts';
import type { CheckQuotesResult, ReadQuoteResult } from '../../../src/mints/mint-client.ts';
import type { ObservedState } from '../../../src/mints/quote-responses.ts';
import type { SourcedObservation } from '../../../src/quotes/observation-recorder.ts';
import type { WatchedQuote } from '../../../src/quotes/watched-quote-store.ts';
import { PollQueue } from '../../../src/watcher/poll-queue.ts';
import { MIN_POLL_INTERVAL_MS, QuotePoller } from '../../../src/watcher/quote-poller.ts';

const MINT_URL = 'https://mint.example';
const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** Three polls at short intervals until the poller detects the outage, then one every 4 s. */
const MAX_POLLS_IN_OUTAGE_MINUTE = 3 + 15;
const SINGLE_READ_CONCURRENCY = 4;

/** The time of the wall clock and the monotonic clock. */
let nowMs: number;
let mint: FakeMint;
let queue: PollQueue;
let poller: QuotePoller;
let coveredIds: Set<string>;

beforeEach(() => {
  nowMs = 1_800_000_000_000;
  mint = new FakeMint();
  coveredIds = new Set();
  queue = new PollQueue({
    isOperatorMint: false,
    isCovered: (quoteId) => coveredIds.has(quoteId),
    clock: () => nowMs,
    monotonicMs: () => nowMs,
  });
  poller = new QuotePoller({
    mintUrl: MINT_URL,
    queue,
    client: mint,
    limiter: mint,
    getMaxBatchSize: async () => mint.maxBatchSize,
    limits: OPERATOR_MINT_LIMITS,
    minPollIntervalMs: MIN_POLL_INTERVAL_MS,
    clock: () => nowMs,
    monotonicMs: () => nowMs,
  });
});

it('counts the unpaid quotes of the queue', () => {
  watchQuotes(['one', 'two', 'three', 'four'], { isJustCreated: true });
  watchQuotes(['one'], {});
  const recorded = {
    paidAtMs: nowMs,
    isWatched: true,
    isRejected: false,
    hasStateChanged: true,
    source: 'poll',
  } as const;
  queue.applyRecorded([{ ...recorded, quoteId: 'one', state: 'PAID' }]);
  queue.applyRecorded([{ ...recorded, quoteId: 'one', state: 'INFLIGHT' }]);
  queue.applyRecorded([{ ...recorded, quoteId: 'two', state: 'EXPIRED', isWatched: false }]);
  expect(queue.unpaidCount).toBe(2);
  queue.remove('one');
  queue.remove('three');
  expect(queue.unpaidCount).toBe(1);
});

describe('QuotePoller timing', () => {
  it('polls a stored quote immediately and a new quote after its poll interval', async () => {
    watchQuotes(['new'], { isJustCreated: true });
    expect(await poller.poll()).toBeNull();
    watchQuotes(['old'], { createdAtMs: nowMs - 5 * HOUR_MS });
    await poller.poll();
    await advanceAndPoll(8 * SECOND_MS);
    expect(mint.batches).toEqual([['old'], ['new'], ['new']]);
  });

  it('polls a stored quote immediately even if a subscription covers it', async () => {
    coveredIds.add('covered');
    watchQuotes(['covered'], { createdAtMs: nowMs - 5 * HOUR_MS });
    await poller.poll();
    expect(mint.batches).toEqual([['covered']]);
  });

  it('polls a new quote only every 20 s if a subscription covers it', async () => {
    coveredIds.add('covered');
    watchQuotes(['covered'], { isJustCreated: true });
    await advanceAndPoll(41 * SECOND_MS);
    expect(mint.batches).toHaveLength(2);
  });

  it('adds quotes that are due soon to a batch but sends no batch only for them', async () => {
    watchQuotes(['first'], { isJustCreated: true });
    nowMs += 1.5 * SECOND_MS;
    watchQuotes(['second'], { isJustCreated: true });
    nowMs += 2 * SECOND_MS;
    expect(await poller.poll()).toBeNull();
    nowMs += 0.5 * SECOND_MS;
    await poller.poll();
    expect(mint.batches).toEqual([['first', 'second']]);
  });

  it('polls a covered quote once, 5 s after its expiry', async () => {
    coveredIds.add('expiring');
    watchQuotes(['expiring'], { createdAtMs: nowMs - HOUR_MS, isJustCreated: true });
    await advanceAndPoll(4.5 * SECOND_MS);
    expect(mint.batches).toHaveLength(0);
    await advanceAndPoll(30 * SECOND_MS);
    expect(mint.batches).toHaveLength(1);
  });

  it('polls a covered quote once, 2 s after the mint confirmed its subscription', async () => {
    coveredIds.add('subscribed');
    watchQuotes(['subscribed'], { isJustCreated: true });
    nowMs += SECOND_MS;
    queue.handleSubscribed(['subscribed']);
    // Neither a batch for other quotes nor a poll of the quote before that time replaces it.
    watchQuotes(['other']);
    await advanceAndPoll(1.75 * SECOND_MS);
    expect(mint.batches).toEqual([['other']]);
    await advanceAndPoll(0.25 * SECOND_MS);
    expect(mint.batches[1]).toContain('subscribed');
    mint.forgetRequests();
    queue.remove('other');
    watchQuotes(['paid'], { isJustCreated: true });
    queue.handleSubscribed(['paid']);
    recordObservations([{ quoteId: 'paid', state: 'PAID', source: 'socket' }]);
    await advanceAndPoll(12 * SECOND_MS);
    expect(mint.batches).toEqual([]);
  });

  it('polls a new quote 4 s after its last poll if the subscription is lost', async () => {
    coveredIds.add('covered');
    watchQuotes(['covered'], { isJustCreated: true });
    nowMs += 3 * SECOND_MS;
    coveredIds.clear();
    queue.handleUncovered(['covered']);
    expect(await poller.poll()).toBeNull();
    nowMs += SECOND_MS;
    await poller.poll();
    expect(mint.batches).toEqual([['covered']]);
  });

  it('polls old quotes although more urgent quotes than fit into its batches are due', async () => {
    mint.maxBatchSize = 100;
    watchQuotes(createQuoteIds(300, 'old'), { createdAtMs: nowMs - 5 * HOUR_MS });
    watchQuotes(createQuoteIds(5_000, 'young'));
    await advanceAndPoll(4 * SECOND_MS);
    const polled = new Set(mint.batches.flat());
    expect(createQuoteIds(300, 'old').filter((quoteId) => polled.has(quoteId))).toHaveLength(300);
  });

  it('stops polling quotes that are ISSUED or removed from the queue', async () => {
    watchQuotes(['issued', 'deleted']);
    mint.states.set('issued', 'ISSUED');
    await advanceAndPoll(SECOND_MS);
    queue.remove('deleted');
    expect(queue.listNewestIds(10)).toEqual([]);
    expect(await poller.poll()).toBeNull();
  });

  it('updates how long the most overdue quote has been due', async () => {
    expect(queue.getMaxOverdueMs()).toBe(0);
    watchQuotes(['late'], { isJustCreated: true });
    nowMs += 4 * SECOND_MS;
    expect(queue.getMaxOverdueMs()).toBe(0);
    nowMs += 10 * SECOND_MS;
    expect(queue.getMaxOverdueMs()).toBe(10 * SECOND_MS);
    await poller.poll();
    expect(queue.getMaxOverdueMs()).toBe(0);
  });
});

describe('QuotePoller observations', () => {
  it('returns no observations if no state changed', async () => {
    watchQuotes(['unpaid']);
    watchQuotes(['paid'], { state: 'PAID', paidAtMs: nowMs });
    expect(await poller.poll()).toEqual([]);
    expect(mint.batches).toEqual([['unpaid', 'paid']]);
  });

  it('returns the state that the mint reports', async () => {
    watchQuotes(['paid']);
    mint.states.set('paid', 'PAID');
    expect(await poller.poll()).toEqual([
      { quoteId: 'paid', state: 'PAID', source: 'poll', shouldEndWatch: false },
    ]);
  });

  it('drops a polled state if a subscription reported another state after the request', async () => {
    watchQuotes(['paid']);
    const response = mint.holdBatchResults();
    const polling = poller.poll();
    nowMs += SECOND_MS;
    recordObservations([{ quoteId: 'paid', state: 'PAID', source: 'socket' }]);
    response.resolve();
    expect(await polling).toEqual([]);
  });

  it('returns observations that the database rejects ever less often', async () => {
    watchQuotes(['paid'], { state: 'PAID', paidAtMs: nowMs });
    mint.states.set('paid', 'UNPAID');
    const observations = await advanceAndPoll(HOUR_MS);
    expect(mint.batches.length).toBeGreaterThan(50);
    expect(observations.length).toBeLessThan(12);
    mint.states.set('paid', 'ISSUED');
    expect(await advanceAndPoll(HOUR_MS)).toMatchObject([{ state: 'ISSUED' }]);
  });

  it('leaves a change from PAID to INFLIGHT that a subscription reports to polls', () => {
    watchQuotes(['unpaid']);
    watchQuotes(['paid'], { state: 'PAID', paidAtMs: nowMs });
    const isRecorded = (quoteId: string, state: ObservedState) =>
      queue.shouldRecordReported({ quoteId, state });
    expect(isRecorded('unpaid', 'INFLIGHT')).toBe(true);
    expect(isRecorded('paid', 'INFLIGHT')).toBe(false);
    expect(isRecorded('paid', 'ISSUED')).toBe(true);
  });

  it('returns a change of a quote from PAID to INFLIGHT only once', async () => {
    watchQuotes(['flapping'], { state: 'PAID', paidAtMs: nowMs });
    const observations: SourcedObservation[] = [];
    for (let round = 0; round < 20; round += 1) {
      mint.states.set('flapping', round % 2 === 0 ? 'INFLIGHT' : 'PAID');
      observations.push(...(await advanceAndPoll(5 * MINUTE_MS)));
    }
    expect(observations.map(({ state }) => state)).toEqual(['INFLIGHT', 'PAID']);
  });

  it('returns a payment again if the database lost it and the quote is unpaid again', async () => {
    watchQuotes(['paid'], { state: 'PAID', paidAtMs: nowMs });
    expect(await poller.poll()).toEqual([]);
    watchQuotes(['paid']);
    mint.states.set('paid', 'PAID');
    expect(await advanceAndPoll(5 * SECOND_MS)).toMatchObject([{ quoteId: 'paid', state: 'PAID' }]);
  });

  it('ends the watch of an expired quote with a response an hour after the first late response', async () => {
    watchQuotes(['late'], { createdAtMs: nowMs - 5 * DAY_MS });
    expect(await poller.poll()).toEqual([]);
    expect(await advanceAndPoll(HOUR_MS - MINUTE_MS)).toEqual([]);
    expect(await advanceAndPoll(3 * HOUR_MS)).toMatchObject([
      { quoteId: 'late', state: 'UNPAID', shouldEndWatch: true },
    ]);
    expect(queue.listNewestIds(10)).toEqual([]);
  });

  it('ends the watch of a paid quote that is not collected within a week', async () => {
    watchQuotes(['paid'], { state: 'PAID', paidAtMs: nowMs - 8 * DAY_MS });
    expect(await advanceAndPoll(DAY_MS)).toMatchObject([
      { quoteId: 'paid', state: 'PAID', shouldEndWatch: true },
    ]);
  });

  it('waits for two responses after the watch period of a quote that was paid late', async () => {
    watchQuotes(['late'], { createdAtMs: nowMs - 5 * DAY_MS });
    await poller.poll();
    watchQuotes(['late'], { state: 'PAID', paidAtMs: nowMs });
    nowMs += 8 * DAY_MS;
    expect(await poller.poll()).toEqual([]);
    expect(await advanceAndPoll(2 * DAY_MS)).toMatchObject([
      { quoteId: 'late', state: 'PAID', shouldEndWatch: true },
    ]);
  });

  it('does not end a watch while the mint does not respond', async () => {
    watchQuotes(['late'], { createdAtMs: nowMs - 5 * DAY_MS });
    mint.failure = { outcome: 'unavailable', reason: 'timeout' };
    expect(await advanceAndPoll(5 * HOUR_MS)).toEqual([]);
    expect(queue.listNewestIds(10)).toEqual(['late']);
  });
});

describe('QuotePoller with more than 20,000 quotes', () => {
  it('stops watching unpaid quotes within four hours of their expiry, and watches other quotes as usual', async () => {
    watchQuotes(createQuoteIds(20_000));
    watchQuotes(['unpaid', 'paid'], { createdAtMs: nowMs - HOUR_MS });
    mint.maxBatchSize = 1_000;
    mint.states.set('paid', 'PAID');
    const ended = (await advanceAndPoll(4 * HOUR_MS)).filter(
      ({ shouldEndWatch }) => shouldEndWatch,
    );
    expect(ended.map(({ quoteId }) => quoteId)).toContain('unpaid');
    expect(ended.map(({ quoteId }) => quoteId)).not.toContain('paid');
  });

  // Other work of the machine can only increase the ratio, so one successful attempt is enough.
  it('takes little time for a poll', { retry: 2 }, async () => {
    const createdAtMs = nowMs - 2 * HOUR_MS;
    const measureMs = async (count: number) => {
      watchQuotes(createQuoteIds(count, `of-${count}`), { createdAtMs });
      mint.maxBatchSize = 100;
      const roundsMs: number[] = [];
      for (let round = 0; round < 2; round += 1) {
        const startedAtMs = performance.now();
        for (let poll = 0; poll < 50; poll += 1) {
          nowMs += SECOND_MS;
          await poller.poll();
          queue.getMaxOverdueMs();
        }
        roundsMs.push(performance.now() - startedAtMs);
      }
      // The other round may include garbage collections.
      return Math.min(...roundsMs);
    };
    await measureMs(1_000);
    const fewMs = await measureMs(10_000);
    const manyMs = await measureMs(200_000);
    // A scan of all quotes would take twenty times as long.
    expect(manyMs / fewMs).toBeLessThan(10);
  });
});

describe('QuotePoller batches', () => {
  it.each([
    ['7 if the mint advertises this size', 7, [7, 7, 6]],
    ['20 if the mint advertises no size', null, [20]],
  ])('sends 20 ids in batches of at most %s', async (_case, maxBatchSize, sizes) => {
    mint.maxBatchSize = maxBatchSize;
    watchQuotes(createQuoteIds(20), { isJustCreated: true });
    nowMs += 4 * SECOND_MS;
    await advanceAndPoll(SECOND_MS);
    expect(mint.batches.map((batch) => batch.length)).toEqual(sizes);
  });

  it('polls a backlog of 10,001 quotes within 5 s, the youngest quote first', async () => {
    mint.maxBatchSize = 1_000;
    watchQuotes(createQuoteIds(10_000), { createdAtMs: nowMs - 5 * HOUR_MS });
    watchQuotes(['young']);
    mint.states.set('young', 'PAID');
    mint.states.set('id-77', 'PAID');
    const observations = await advanceAndPoll(5 * SECOND_MS);
    expect(observations.map(({ quoteId }) => quoteId)).toEqual(['young', 'id-77']);
    expect(mint.batches[0]?.[0]).toBe('young');
    expect(new Set(mint.batches.flat()).size).toBe(10_001);
    expect(mint.batches.length).toBeLessThan(20);
  });

  it('sends at most 15 batches in a minute to a mint with a rate limit if there is no backlog', async () => {
    mint.isLimited = true;
    watchQuotes(createQuoteIds(50), { isJustCreated: true });
    await advanceAndPoll(MINUTE_MS);
    expect(mint.batches.length).toBeLessThanOrEqual(15);
  });

  it.each([
    ['one unknown id', ['id-3']],
    ['several unknown ids', ['id-3', 'id-4', 'id-99', 'id-150']],
  ])(
    'polls the other quotes and a new quote soon if the mint rejects batches with %s',
    async (_case, unknownIds) => {
      mint.rejectsBatch = (batch) => batch.some((id) => unknownIds.includes(id));
      watchQuotes(unknownIds, { isUnknown: true });
      watchQuotes(createQuoteIds(200).filter((id) => !unknownIds.includes(id)));
      mint.states.set('id-2', 'PAID');
      mint.states.set('id-151', 'PAID');
      await poller.poll();
      nowMs += 1;
      watchQuotes(['new']);
      mint.states.set('new', 'PAID');
      const firstObservations = await advanceAndPoll(2 * SECOND_MS);
      expect(firstObservations.map(({ quoteId }) => quoteId)).toContain('new');
      const observations = [...firstObservations, ...(await advanceAndPoll(20 * SECOND_MS))];
      expect(observations.map(({ quoteId }) => quoteId).toSorted()).toEqual([
        'id-151',
        'id-2',
        'new',
      ]);

      // After that, the poller reads the unknown ids singly, and the known ids share batches again.
      mint.forgetRequests();
      await advanceAndPoll(20 * SECOND_MS);
      expect(mint.batches.flat()).not.toContain(unknownIds[0]);
      expect(new Set(mint.singleReads)).toEqual(new Set(unknownIds));
      expect(mint.batches.some((batch) => batch.length > 90)).toBe(true);
    },
  );

  it('adds an id to batches again after the mint knows it', async () => {
    mint.rejectsBatch = (batch) => batch.some((id) => !mint.states.has(id));
    watchQuotes(createQuoteIds(4));
    watchQuotes(['restored'], { isUnknown: true });
    await advanceAndPoll(10 * SECOND_MS);
    expect(mint.singleReads).toContain('restored');
    mint.states.set('restored', 'UNPAID');
    await advanceAndPoll(10 * SECOND_MS);
    mint.forgetRequests();
    await advanceAndPoll(10 * SECOND_MS);
    expect(mint.singleReads).toEqual([]);
    expect(mint.batches[0]).toContain('restored');
  });

  it('keeps at most some thousand quotes out of batches while the mint rejects every batch', async () => {
    mint.maxBatchSize = 1_000;
    mint.rejectsBatch = () => true;
    watchQuotes(createQuoteIds(20_000));
    await advanceAndPoll(2 * SECOND_MS);
    expect(new Set(mint.batches.flat()).size).toBeLessThanOrEqual(4_000);
  });

  it('reads quotes singly if the mint rejects every batch', async () => {
    mint.rejectsBatch = () => true;
    watchQuotes(createQuoteIds(8), { isJustCreated: true });
    mint.states.set('id-6', 'PAID');
    expect(await advanceAndPoll(MINUTE_MS)).toMatchObject([{ quoteId: 'id-6', state: 'PAID' }]);
    mint.forgetRequests();
    await advanceAndPoll(MINUTE_MS);
    expect(mint.batches).toEqual([]);
    expect(new Set(mint.singleReads)).toEqual(new Set(createQuoteIds(8)));
  });

  it('tries batches again 15 minutes after the mint did not support them', async () => {
    mint.batchResult = { outcome: 'unsupported' };
    watchQuotes(createQuoteIds(5));
    mint.states.set('id-1', 'PAID');
    expect(await advanceAndPoll(SECOND_MS)).toMatchObject([{ quoteId: 'id-1' }]);
    expect(mint.singleReads.toSorted()).toEqual(createQuoteIds(5));
    await advanceAndPoll(14 * MINUTE_MS);
    expect(mint.batches).toHaveLength(1);
    mint.batchResult = null;
    mint.forgetRequests();
    await advanceAndPoll(2 * MINUTE_MS);
    expect(mint.batches.length).toBeGreaterThan(0);
  });

  it('reads quotes singly after 12 batches fail while single reads succeed', async () => {
    mint.batchResult = { outcome: 'unavailable', reason: 'status 500' };
    watchQuotes(createQuoteIds(5));
    mint.states.set('id-1', 'PAID');
    expect(await advanceAndPoll(MINUTE_MS)).toMatchObject([{ quoteId: 'id-1' }]);
    expect(mint.batches).toHaveLength(12);
    expect(poller.isMintUnresponsive).toBe(false);
    mint.forgetRequests();
    await advanceAndPoll(MINUTE_MS);
    expect(mint.batches).toEqual([]);
  });

  it('continues with batches if the mint recovers after 2 s', async () => {
    mint.batchResult = { outcome: 'unavailable', reason: 'status 500' };
    watchQuotes(createQuoteIds(5));
    await advanceAndPoll(2 * SECOND_MS);
    mint.batchResult = null;
    mint.forgetRequests();
    await advanceAndPoll(MINUTE_MS);
    expect(mint.batches).not.toEqual([]);
    expect(mint.singleReads).toEqual([]);
  });

  it('reads an id singly if the mint omits it from a batch result', async () => {
    mint.omitsFromBatch = (id) => id === 'id-2';
    watchQuotes(createQuoteIds(4), { isJustCreated: true });
    mint.states.set('id-2', 'PAID');
    expect(await advanceAndPoll(15 * SECOND_MS)).toMatchObject([
      { quoteId: 'id-2', state: 'PAID' },
    ]);
    expect(mint.singleReads).toEqual(['id-2']);
  });

  it('reads an id that the mint omits from batches at most twice if the read fails', async () => {
    mint.omitsFromBatch = (id) => id === 'id-2';
    mint.failsRead = (id) => id === 'id-2';
    watchQuotes(createQuoteIds(4));
    await advanceAndPoll(MINUTE_MS);
    expect(mint.batches.length).toBeGreaterThan(10);
    expect(mint.singleReads.length).toBeLessThanOrEqual(2);
  });

  it('reads the 16 most urgent quotes singly while batches are paused for a minute', async () => {
    watchQuotes(createQuoteIds(3));
    watchQuotes(createQuoteIds(30, 'old'), { createdAtMs: nowMs - 5 * HOUR_MS });
    mint.waitsMs.check = MINUTE_MS;
    mint.states.set('id-2', 'PAID');
    expect(await poller.poll()).toMatchObject([{ quoteId: 'id-2' }]);
    expect(mint.batches).toEqual([]);
    expect(mint.singleReads).toHaveLength(16);
    expect(mint.singleReads.slice(0, 3).toSorted()).toEqual(createQuoteIds(3));
  });

  it('reads the quotes of a rejected batch singly while batches are paused for an hour', async () => {
    mint.rejectsBatch = (batch) => batch.includes('id-0');
    watchQuotes(createQuoteIds(4));
    await poller.poll();
    mint.waitsMs.check = HOUR_MS;
    mint.states.set('id-3', 'PAID');
    expect(await advanceAndPoll(10 * SECOND_MS)).toMatchObject([{ quoteId: 'id-3' }]);
  });

  it('waits until batches are allowed again if they are paused for only 2 s', () => {
    watchQuotes(createQuoteIds(3));
    mint.waitsMs.check = 2 * SECOND_MS;
    expect(poller.getWaitMs()).toBe(2 * SECOND_MS);
  });
});

describe('QuotePoller at a failing mint', () => {
  it.each([
    ['one quote', ['failing-0']],
    ['eight quotes', createQuoteIds(8, 'failing')],
  ])('polls the other quotes while the mint fails for %s', async (_case, failingIds) => {
    mint.failsBatch = (batch) => batch.some((id) => failingIds.includes(id));
    mint.failsRead = (quoteId) => failingIds.includes(quoteId);
    watchQuotes(failingIds);
    watchQuotes(createQuoteIds(50), { createdAtMs: nowMs - 5 * HOUR_MS });
    nowMs += 5 * SECOND_MS;
    watchQuotes(['young']);
    mint.states.set('young', 'PAID');
    mint.states.set('id-30', 'PAID');
    const observations = await advanceAndPoll(2 * MINUTE_MS);
    expect(observations.map(({ quoteId }) => quoteId).toSorted()).toEqual(['id-30', 'young']);
    mint.states.set('young', 'ISSUED');
    expect(await advanceAndPoll(2 * MINUTE_MS)).toMatchObject([
      { quoteId: 'young', state: 'ISSUED' },
    ]);
    mint.failsRead = () => false;
    mint.states.set('failing-0', 'PAID');
    expect(await advanceAndPoll(2 * MINUTE_MS)).toMatchObject([{ quoteId: 'failing-0' }]);
  });

  it('finds a payment in a rejected batch although the mint fails for another quote of the batch', async () => {
    mint.rejectsBatch = (batch) => batch.includes('id-0');
    mint.failsBatch = (batch) => batch.includes('id-90') && batch.length > 1 && batch.length < 100;
    mint.failsRead = (quoteId) => quoteId === 'id-90';
    watchQuotes(createQuoteIds(100), { createdAtMs: nowMs - 5 * HOUR_MS });
    mint.states.set('id-80', 'PAID');
    let observations: SourcedObservation[] = [];
    for (let round = 0; round < 30; round += 1) {
      // New quotes keep the mint's other batches successful.
      watchQuotes([`new-${round}`]);
      observations = [...observations, ...(await advanceAndPoll(2 * SECOND_MS))];
    }
    expect(observations).toMatchObject([{ quoteId: 'id-80', state: 'PAID' }]);
  });

  it.each([
    ['batches', () => {}],
    ['single reads', () => Object.assign(mint, { batchResult: { outcome: 'unsupported' } })],
  ])(
    'polls again after the mint rate-limits %s and does not treat it as unresponsive',
    async (_case, prepareMint) => {
      prepareMint();
      watchQuotes(createQuoteIds(5));
      await advanceAndPoll(0);
      mint.failure = { outcome: 'rate_limited', retryAfterMs: SECOND_MS };
      nowMs += 20 * SECOND_MS;
      expect(await poller.poll()).toEqual([]);
      expect(poller.isMintUnresponsive).toBe(false);
      mint.failure = null;
      mint.states.set('id-4', 'PAID');
      expect(await advanceAndPoll(SECOND_MS)).toMatchObject([{ quoteId: 'id-4' }]);
    },
  );

  it('treats a mint that times out as unresponsive until it responds and sends it small batches', async () => {
    mint.failure = { outcome: 'unavailable', reason: 'timed out' };
    watchQuotes(createQuoteIds(300));
    await advanceAndPoll(MINUTE_MS);
    expect(poller.isMintUnresponsive).toBe(true);
    expect(mint.batches.length).toBeLessThanOrEqual(MAX_POLLS_IN_OUTAGE_MINUTE);
    // A slow mint may respond in time to a small batch.
    expect(mint.batches.slice(0, 3).map((batch) => batch.length)).toEqual([100, 50, 25]);

    mint.failure = null;
    mint.forgetRequests();
    await advanceAndPoll(15 * SECOND_MS);
    expect(poller.isMintUnresponsive).toBe(false);
    expect(new Set(mint.batches.flat()).size).toBe(300);
  });

  it('treats a mint without batches as unresponsive while single reads time out', async () => {
    mint.batchResult = { outcome: 'unsupported' };
    watchQuotes(createQuoteIds(10));
    mint.failure = { outcome: 'unavailable', reason: 'timeout' };
    mint.failureAffectsBatches = false;
    await advanceAndPoll(MINUTE_MS);
    expect(poller.isMintUnresponsive).toBe(true);
    expect(mint.singleReads.length).toBeLessThanOrEqual(
      MAX_POLLS_IN_OUTAGE_MINUTE * SINGLE_READ_CONCURRENCY,
    );
    mint.failure = null;
    mint.states.set('id-9', 'PAID');
    expect(await advanceAndPoll(MINUTE_MS)).toMatchObject([{ quoteId: 'id-9' }]);
    expect(poller.isMintUnresponsive).toBe(false);
  });

  it('polls old quotes within 5 s after the mint recovers', async () => {
    watchQuotes(createQuoteIds(5), { createdAtMs: nowMs - 2 * DAY_MS });
    mint.failure = { outcome: 'unavailable', reason: 'timeout' };
    await advanceAndPoll(10 * MINUTE_MS);
    expect(mint.singleReads.length).toBeGreaterThan(0);
    mint.failure = null;
    mint.states.set('id-0', 'PAID');
    expect(await advanceAndPoll(5 * SECOND_MS)).toMatchObject([{ quoteId: 'id-0' }]);
  });

  it('retries a failed single read within two minutes while 600 quotes need single reads', async () => {
    mint.batchResult = { outcome: 'unsupported' };
    watchQuotes(createQuoteIds(600));
    mint.failsRead = (quoteId) => quoteId === 'id-0';
    while (!mint.singleReads.includes('id-0')) {
      await advanceAndPoll(SECOND_MS);
    }
    mint.failsRead = () => false;
    mint.states.set('id-0', 'PAID');
    expect(await advanceAndPoll(2 * MINUTE_MS)).toMatchObject([{ quoteId: 'id-0' }]);
  });

  it('reads all quotes even if the mint fails for half of the single reads', async () => {
    mint.batchResult = { outcome: 'unsupported' };
    watchQuotes(createQuoteIds(8, 'failing'), { createdAtMs: nowMs - 2 * DAY_MS });
    watchQuotes(createQuoteIds(8), { isJustCreated: true });
    mint.failsRead = (quoteId) => quoteId.startsWith('failing');
    await advanceAndPoll(MINUTE_MS);
    mint.states.set('id-0', 'PAID');
    expect(await advanceAndPoll(20 * SECOND_MS)).toMatchObject([{ quoteId: 'id-0' }]);
    expect(new Set(mint.singleReads).size).toBe(16);
  });
});

/** A mint whose states and failures the test sets. */
class FakeMint {
  readonly states = new Map<string, ObservedState>();
  batches: string[][] = [];
  singleReads: string[] = [];
  maxBatchSize: number | null = null;
  /** The result of every batch. */
  batchResult: CheckQuotesResult | null = null;
  rejectsBatch: (batch: readonly string[]) => boolean = () => false;
  omitsFromBatch: (quoteId: string) => boolean = () => false;
  failsBatch: (batch: readonly string[]) => boolean = () => false;
  failsRead: (quoteId: string) => boolean = () => false;
  /** The result of every single read and, if `failureAffectsBatches`, of every batch. */
  failure: (CheckQuotesResult & ReadQuoteResult) | null = null;
  failureAffectsBatches = true;
  readonly waitsMs = { check: 0, read: 0 };
  isLimited = false;
  #heldUntil: Promise<void> = Promise.resolve();

  /** Delays the results of batches until the test resolves the promise. */
  holdBatchResults(): PromiseWithResolvers<void> {
    const held = Promise.withResolvers<void>();
    this.#heldUntil = held.promise;
    return held;
  }

  forgetRequests(): void {
    this.batches = [];
    this.singleReads = [];
  }

  hasLearnedLimit(): boolean {
    return this.isLimited;
  }

  getWaitMs(_mintUrl: string, route: 'check' | 'read'): number {
    return this.waitsMs[route];
  }

  async checkQuotes(_mintUrl: string, quoteIds: readonly string[]): Promise<CheckQuotesResult> {
    this.batches.push([...quoteIds]);
    const failure = this.failureAffectsBatches ? this.failure : null;
    const result = failure ?? this.batchResult ?? this.#computeBatchResult(quoteIds);
    await this.#heldUntil;
    return result;
  }

  async readQuote(_mintUrl: string, quoteId: string): Promise<ReadQuoteResult> {
    this.singleReads.push(quoteId);
    const state = this.states.get(quoteId);
    if (this.failure !== null || this.failsRead(quoteId)) {
      return this.failure ?? { outcome: 'unavailable', reason: 'status 500' };
    }
    return state === undefined
      ? { outcome: 'not_found' }
      : { outcome: 'found', observation: { quoteId, state } };
  }

  #computeBatchResult(quoteIds: readonly string[]): CheckQuotesResult {
    if (this.failsBatch(quoteIds)) {
      return { outcome: 'unavailable', reason: 'status 500' };
    }
    if (this.rejectsBatch(quoteIds)) {
      return { outcome: 'rejected', status: 400, detail: 'unknown quote' };
    }
    const observations = quoteIds.flatMap((quoteId) => {
      const state = this.states.get(quoteId);
      return state === undefined || this.omitsFromBatch(quoteId) ? [] : [{ quoteId, state }];
    });
    return { outcome: 'found', observations };
  }
}

let lastRowId = 0;

/** Adds quotes to the queue and, unless `isUnknown`, to the mint. */
function watchQuotes(
  quoteIds: readonly string[],
  options: Partial<WatchedQuote> & { isJustCreated?: boolean; isUnknown?: boolean } = {},
): void {
  const { isJustCreated = false, isUnknown = false, ...changes } = options;
  const quotes = quoteIds.map((quoteId): WatchedQuote => {
    lastRowId += 1;
    const createdAtMs = changes.createdAtMs ?? nowMs;
    const expiresAtMs = createdAtMs + HOUR_MS;
    const unpaid = { state: 'UNPAID' as const, createdAtMs, expiresAtMs, paidAtMs: null };
    return { id: lastRowId, quoteId, ...unpaid, ...changes };
  });
  queue.add(quotes, isJustCreated);
  for (const { quoteId, state } of quotes) {
    if (!isUnknown && state !== 'EXPIRED') {
      mint.states.set(quoteId, state);
    }
  }
}

function createQuoteIds(count: number, name = 'id'): string[] {
  return Array.from({ length: count }, (_, index) => `${name}-${index}`);
}

/** Advances time, polls as soon as the poller allows it, and records and returns the observations. */
async function advanceAndPoll(durationMs: number): Promise<SourcedObservation[]> {
  const observations: SourcedObservation[] = [];
  const untilMs = nowMs + durationMs;
  // Long durations use larger steps, so that the test stays fast.
  const stepMs = Math.max(250, durationMs / 2_000);
  while (true) {
    if (poller.getWaitMs() === 0) {
      const polled = (await poller.poll()) ?? [];
      recordObservations(polled);
      observations.push(...polled);
    }
    if (nowMs >= untilMs) {
      return observations;
    }
    nowMs = Math.min(nowMs + stepMs, untilMs);
  }
}

/** Simulates the database: a paid quote stays paid, and an ISSUED quote is no longer watched. */
function recordObservations(observations: readonly SourcedObservation[]): void {
  queue.applyRecorded(
    observations.map(({ quoteId, state, source, shouldEndWatch }) => ({
      quoteId,
      state: state === 'UNPAID' ? 'PAID' : state,
      paidAtMs: nowMs,
      isWatched: state !== 'ISSUED' && shouldEndWatch !== true,
      hasStateChanged: true,
      isRejected: state === 'UNPAID',
      source,
    })),
  );
}
