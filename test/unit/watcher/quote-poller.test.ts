import { beforeEach, describe, expect, it } from 'vitest';
import { OPERATOR_MINT_LIMITS } from '../../../src/mints/limits.ts';
import type { CheckQuotesResult, ReadQuoteResult } from '../../../src/mints/mint-client.ts';
import type { ObservedState } from '../../../src/mints/quote-responses.ts';
import type { SourcedObservation } from '../../../src/quotes/decide-observation.ts';
import type { WatchedQuoteRow } from '../../../src/quotes/watched-quote-store.ts';
import { MIN_POLL_INTERVAL_MS } from '../../../src/watcher/limits.ts';
import { QuotePoller } from '../../../src/watcher/quote-poller.ts';
import { WatchedQuotes } from '../../../src/watcher/watched-quotes.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** The time of the monotonic clock and, plus `clockOffsetMs`, of the wall clock. */
let nowMs: number;
let clockOffsetMs: number;
let mint: FakeMint;
let quotes: WatchedQuotes;
let poller: QuotePoller;
let reports: SourcedObservation[];

beforeEach(() => {
  nowMs = 1_800_000_000_000;
  clockOffsetMs = 0;
  mint = new FakeMint();
  reports = [];
  const now = () => nowMs;
  const clock = () => nowMs + clockOffsetMs;
  quotes = new WatchedQuotes({
    isOperatorMint: false,
    clock,
    monotonicMs: now,
    onReport: () => undefined,
  });
  poller = new QuotePoller({
    mintUrl: 'https://mint.example',
    quotes,
    client: mint,
    limiter: mint,
    getMaxBatchSize: async () => mint.maxBatchSize,
    limits: OPERATOR_MINT_LIMITS,
    minPollIntervalMs: MIN_POLL_INTERVAL_MS,
    firstPollDelayMs: 0,
    clock,
    monotonicMs: now,
  });
});

describe('the schedule', () => {
  it('polls a covered quote every 20 s, but every 4 s once its subscription is lost', async () => {
    watch(['covered'], { isJustCreated: true });
    quotes.handleNotification({ quoteId: 'covered', state: 'UNPAID' });
    await poll(19 * SECOND_MS);
    expect(mint.batches).toHaveLength(0);
    await poll(2 * SECOND_MS);
    expect(mint.batches).toHaveLength(1);
    quotes.handleUnsubscribed(['covered']);
    await poll(8 * SECOND_MS);
    expect(mint.batches).toHaveLength(3);
  });

  it('polls covered quotes often after a poll found a change that the subscription missed, until it reports one', async () => {
    watch(['missed', 'other', 'reported'], { isJustCreated: true });
    for (const quoteId of ['missed', 'other', 'reported']) {
      quotes.handleSubscribed([quoteId]);
      quotes.handleNotification({ quoteId, state: 'UNPAID' });
    }
    await poll(11 * SECOND_MS);
    mint.states.set('missed', 'ISSUED');
    await poll(25 * SECOND_MS);
    mint.forgetRequests();
    await poll(20 * SECOND_MS);
    expect(mint.countPolls('other')).toBe(5);
    quotes.handleNotification({ quoteId: 'reported', state: 'PAID' });
    await poll(0);
    mint.forgetRequests();
    await poll(20 * SECOND_MS);
    expect(mint.countPolls('other')).toBeLessThanOrEqual(1);
  });

  it('polls old quotes although more young quotes than fit into its batches are due', async () => {
    mint.maxBatchSize = 100;
    watch(createQuoteIds(300, 'old'), { createdAtMs: nowMs - 5 * HOUR_MS });
    watch(createQuoteIds(5_000, 'young'));
    await poll(4 * SECOND_MS);
    const polled = new Set(mint.batches.flat());
    expect(createQuoteIds(300, 'old').filter((quoteId) => polled.has(quoteId))).toHaveLength(300);
  });

  it('sends at most 15 batches a minute to a mint that has refused some, without a backlog', async () => {
    mint.hasRefused = true;
    for (const quoteId of createQuoteIds(3)) {
      watch([quoteId], { isJustCreated: true });
      nowMs += 1.25 * SECOND_MS;
    }
    await poll(MINUTE_MS);
    expect(mint.batches.length).toBeLessThanOrEqual(15);
  });

  it('polls a backlog of 10,001 quotes within 5 s, the youngest first', async () => {
    mint.maxBatchSize = 1_000;
    watch(createQuoteIds(10_000), { createdAtMs: nowMs - 5 * HOUR_MS });
    watch(['young']);
    pay('young', 'id-77');
    await poll(5 * SECOND_MS);
    expect(reports.map(({ quoteId }) => quoteId)).toEqual(['young', 'id-77']);
    expect(new Set(mint.batches.flat()).size).toBe(10_001);
    expect(mint.batches.length).toBeLessThan(20);
  });
});

it('the quotes to subscribe are the newest, in whatever order they were added or lost', () => {
  const stored = createQuoteIds(2_000);
  watch(['new'], { isJustCreated: true, id: Number.MAX_SAFE_INTEGER });
  watch(stored.slice(0, 1_000));
  watch(stored.slice(1_000));
  expect(quotes.takeUnsubscribed(3)).toEqual([...stored.slice(-2), 'new']);
  quotes.handleUnsubscribed(stored.slice(0, 1_000));
  quotes.handleUnsubscribed(['new']);
  expect(quotes.takeUnsubscribed(1_000)).toEqual([
    ...stored.slice(998, 1_000),
    ...stored.slice(1_251, 1_998),
    'new',
  ]);
});

describe('a report', () => {
  it('is ignored if the subscription of a user’s mint reports an earlier state, but kept if a poll does', async () => {
    watch(['paid'], { state: 'PAID', paidAtMs: nowMs });
    quotes.handleNotification({ quoteId: 'paid', state: 'INFLIGHT' });
    expect(quotes.hasReports()).toBe(false);
    mint.states.set('paid', 'INFLIGHT');
    await poll(SECOND_MS);
    expect(reports).toMatchObject([{ state: 'INFLIGHT', source: 'poll' }]);
  });

  it('is kept again if the database lost a payment and the quote is unpaid again', async () => {
    watch(['paid'], { state: 'PAID', paidAtMs: nowMs });
    await poll(0);
    watch(['paid']);
    pay('paid');
    await poll(5 * SECOND_MS);
    expect(reports).toMatchObject([{ quoteId: 'paid', state: 'PAID' }]);
  });

  it('of a payment is kept although a wallet has failed six times to mint its ecash', async () => {
    watch(['paid'], { state: 'PAID', paidAtMs: nowMs });
    for (let attempt = 0; attempt < 6; attempt += 1) {
      mint.states.set('paid', 'INFLIGHT');
      await poll(2 * MINUTE_MS);
      pay('paid');
      await poll(5 * MINUTE_MS);
      expect(reports.at(-1)).toMatchObject({ state: 'PAID' });
    }
    expect(reports.length).toBeGreaterThan(4);
  });

  it('of a payment that could not be recorded is not replaced by the end of the watch', async () => {
    watch(['late'], { createdAtMs: nowMs - 9 * DAY_MS });
    quotes.handleNotification({ quoteId: 'late', state: 'UNPAID' });
    await poll(4 * HOUR_MS - SECOND_MS);
    nowMs += SECOND_MS;
    const response = mint.holdBatchResults();
    const polling = poller.poll();
    quotes.handleNotification({ quoteId: 'late', state: 'PAID' });
    const failed = quotes.takeReports(10);
    response.resolve();
    await polling;
    expect(quotes.hasReports()).toBe(true);
    quotes.putBackReports(failed);
    expect(quotes.takeReports(10)).toEqual(failed);
  });

  it('of a payment is kept that arrives while the end of the watch is recorded', async () => {
    watch(['late'], { createdAtMs: nowMs - 9 * DAY_MS });
    await poll(2 * HOUR_MS - SECOND_MS);
    nowMs += SECOND_MS;
    await poller.poll();
    const end = quotes.takeReports(10);
    expect(end).toHaveLength(1);
    quotes.handleNotification({ quoteId: 'late', state: 'PAID' });
    const expired = { quoteId: 'late', state: 'EXPIRED', paidAtMs: null, source: 'poll' } as const;
    quotes.applyRecorded(end, [
      { ...expired, isWatched: false, hasStateChanged: true, rejection: null },
    ]);
    expect(quotes.takeReports(10)).toMatchObject([{ quoteId: 'late', state: 'PAID' }]);
  });

  it('of minted ecash is kept at once although the mint has contradicted the payment four times', async () => {
    watch(['paid'], { state: 'PAID', paidAtMs: nowMs });
    mint.states.set('paid', 'UNPAID');
    await poll(2 * MINUTE_MS);
    expect(reports).toHaveLength(4);
    mint.states.set('paid', 'ISSUED');
    await poll(MINUTE_MS);
    expect(reports.at(-1)).toMatchObject({ state: 'ISSUED' });
  });

  it.each<[string, ObservedState]>([
    ['contradicts the stored state', 'UNPAID'],
    ['changes again and again', 'INFLIGHT'],
  ])('is kept ever less often if it %s', async (_case, state) => {
    watch(['odd'], { state: 'PAID', paidAtMs: nowMs });
    for (let round = 0; round < 120; round += 1) {
      mint.states.set('odd', round % 2 === 0 ? state : 'PAID');
      await poll(MINUTE_MS);
    }
    expect(reports.length).toBeGreaterThan(4);
    expect(reports.length).toBeLessThan(20);
    reports = [];
    mint.states.set('odd', 'ISSUED');
    await poll(2 * HOUR_MS);
    expect(reports).toMatchObject([{ state: 'ISSUED' }]);
  });
});

describe('the end of a watch', () => {
  it.each<[string, Partial<WatchedQuoteRow>]>([
    ['an expired quote', {}],
    ['a paid quote that nobody collected', { state: 'PAID', paidAtMs: 0 }],
  ])('needs two late responses to polls of %s, an hour apart', async (_case, status) => {
    watch(['late'], { createdAtMs: nowMs - 9 * DAY_MS, ...status });
    mint.isDown = true;
    await poll(5 * HOUR_MS);
    mint.isDown = false;
    await poll(5 * MINUTE_MS);
    expect(reports).toEqual([]);
    await poll(5 * HOUR_MS);
    expect(reports).toMatchObject([{ quoteId: 'late', shouldEndWatch: true }]);
    expect(quotes.unpaidCount).toBe(0);
  });

  it('needs two late responses again after the clock has jumped ahead and back', async () => {
    clockOffsetMs = 3 * DAY_MS;
    watch(['unpaid']);
    await poll(MINUTE_MS);
    clockOffsetMs = 0;
    await poll(2 * HOUR_MS);
    clockOffsetMs = 3 * DAY_MS;
    await poll(3 * HOUR_MS);
    expect(reports).toEqual([]);
    await poll(2 * HOUR_MS);
    expect(reports).toMatchObject([{ shouldEndWatch: true }]);
  });

  it('comes earlier for some unpaid quotes while more than 20,000 are watched', async () => {
    mint.maxBatchSize = 1_000;
    watch(createQuoteIds(20_000), { createdAtMs: nowMs - 5 * HOUR_MS });
    watch(['paid'], { createdAtMs: nowMs - 5 * HOUR_MS });
    pay('paid');
    await poll(2 * HOUR_MS);
    const ended = reports.filter(({ shouldEndWatch }) => shouldEndWatch);
    expect(ended.length).toBeGreaterThan(0);
    expect(ended.map(({ quoteId }) => quoteId)).not.toContain('paid');
  });
});

describe('a mint that rejects batches', () => {
  it('gets none for 15 minutes if it fails five of them in a row but reads single quotes', async () => {
    mint.respondToBatch = () => FAILED;
    watch(createQuoteIds(20));
    await poll(10 * SECOND_MS);
    pay('id-6');
    await poll(10 * SECOND_MS);
    expect(reports).toMatchObject([{ quoteId: 'id-6', state: 'PAID' }]);
    await poll(14 * MINUTE_MS);
    expect(mint.batches).toHaveLength(5);
    mint.respondToBatch = () => null;
    await poll(2 * MINUTE_MS);
    expect(mint.batches.length).toBeGreaterThan(6);
  });

  it('gets batches of the other quotes while it refuses single reads for an hour', async () => {
    mint.respondToBatch = (batch) => (batch.includes('unknown') ? REJECTED : null);
    mint.respondToRead = () => ({ outcome: 'rate_limited', retryAfterMs: HOUR_MS });
    watch(['unknown'], { isUnknown: true });
    watch(createQuoteIds(5));
    await poll(10 * SECOND_MS);
    expect(mint.reads.length).toBeGreaterThan(0);
    pay('id-3');
    await poll(10 * SECOND_MS);
    expect(reports).toMatchObject([{ quoteId: 'id-3', state: 'PAID' }]);
  });

  it('gets batches of the others if it omits a quote whose subscription is confirmed meanwhile', async () => {
    mint.respondToBatch = () => REJECTED;
    watch(['omitted', ...createQuoteIds(8)]);
    await poll(0);
    mint.respondToBatch = (batch) => {
      quotes.handleSubscribed(['omitted']);
      return mint.find(batch.filter((quoteId) => quoteId !== 'omitted'));
    };
    await poll(10 * SECOND_MS);
    pay(...createQuoteIds(8));
    await poll(10 * SECOND_MS);
    expect(reports).toHaveLength(8);
  });

  it('gets none while it refuses them for a minute, and the 16 most urgent quotes are read alone', async () => {
    watch(createQuoteIds(3));
    watch(createQuoteIds(30, 'old'), { createdAtMs: nowMs - 5 * HOUR_MS });
    mint.respondToBatch = () => ({ outcome: 'rate_limited', retryAfterMs: MINUTE_MS });
    await poll(0);
    await poll(SECOND_MS / 4);
    expect(mint.batches).toHaveLength(1);
    expect(mint.reads).toHaveLength(16);
    expect(mint.reads.slice(0, 3).toSorted()).toEqual(createQuoteIds(3));
  });
});

describe('a failing mint', () => {
  it.each([
    ['one quote', ['failing-0']],
    ['eight quotes', createQuoteIds(8, 'failing')],
  ])('is polled for the other quotes if it fails for %s', async (_case, failingIds) => {
    mint.respondToBatch = (batch) => (batch.some((id) => failingIds.includes(id)) ? FAILED : null);
    mint.respondToRead = (quoteId) => (failingIds.includes(quoteId) ? FAILED : null);
    watch(failingIds);
    watch(createQuoteIds(50), { createdAtMs: nowMs - 5 * HOUR_MS });
    watch(['young']);
    pay('young', 'id-30');
    await poll(2 * MINUTE_MS);
    expect(reports.map(({ quoteId }) => quoteId).toSorted()).toEqual(['id-30', 'young']);
    mint.respondToRead = () => null;
    pay('failing-0');
    await poll(2 * MINUTE_MS);
    expect(reports.at(-1)).toMatchObject({ quoteId: 'failing-0' });
  });
});

const FAILED = { outcome: 'unavailable', reason: 'timed out' } as const;
const REJECTED = { outcome: 'rejected', status: 400, detail: 'unknown quote' } as const;

/** A mint whose states and failures the test sets. */
class FakeMint {
  readonly states = new Map<string, ObservedState>();
  batches: string[][] = [];
  reads: string[] = [];
  maxBatchSize: number | null = null;
  /** Returns a result instead of the states, or null. */
  respondToBatch: (batch: readonly string[]) => CheckQuotesResult | null = () => null;
  respondToRead: (quoteId: string) => ReadQuoteResult | null = () => null;
  isDown = false;
  hasRefused = false;
  #heldUntil: Promise<void> = Promise.resolve();

  /** Delays the results of batches until the test resolves the promise. */
  holdBatchResults(): PromiseWithResolvers<void> {
    const held = Promise.withResolvers<void>();
    this.#heldUntil = held.promise;
    return held;
  }

  forgetRequests(): void {
    this.batches = [];
    this.reads = [];
  }

  countPolls(quoteId: string): number {
    return [...this.batches.flat(), ...this.reads].filter((id) => id === quoteId).length;
  }

  hasRefusedLately(): boolean {
    return this.hasRefused;
  }

  async checkQuotes(_mintUrl: string, quoteIds: readonly string[]): Promise<CheckQuotesResult> {
    this.batches.push([...quoteIds]);
    const result = this.isDown ? FAILED : (this.respondToBatch(quoteIds) ?? this.find(quoteIds));
    await this.#heldUntil;
    return result;
  }

  async readQuote(_mintUrl: string, quoteId: string): Promise<ReadQuoteResult> {
    this.reads.push(quoteId);
    const state = this.states.get(quoteId);
    const result: ReadQuoteResult =
      state === undefined
        ? { outcome: 'not_found' }
        : { outcome: 'found', observation: { quoteId, state } };
    return this.isDown ? FAILED : (this.respondToRead(quoteId) ?? result);
  }

  find(quoteIds: readonly string[]): CheckQuotesResult {
    const observations = quoteIds.flatMap((quoteId) => {
      const state = this.states.get(quoteId);
      return state === undefined ? [] : [{ quoteId, state }];
    });
    return { outcome: 'found', observations };
  }
}

let lastRowId = 0;

function watch(
  quoteIds: readonly string[],
  options: Partial<WatchedQuoteRow> & { isJustCreated?: boolean; isUnknown?: boolean } = {},
): void {
  const { isJustCreated = false, isUnknown = false, ...changes } = options;
  const added = quoteIds.map((quoteId): WatchedQuoteRow => {
    lastRowId += 1;
    const createdAtMs = changes.createdAtMs ?? nowMs;
    const expiresAtMs = createdAtMs + HOUR_MS;
    const unpaid = { state: 'UNPAID' as const, createdAtMs, expiresAtMs, paidAtMs: null };
    return { id: lastRowId, quoteId, ...unpaid, ...changes };
  });
  if (isJustCreated) {
    for (const row of added) {
      quotes.addNew(row);
    }
  } else {
    quotes.addExisting(added);
  }
  for (const { quoteId, state } of added) {
    if (!isUnknown && state !== 'EXPIRED') {
      mint.states.set(quoteId, state);
    }
  }
}

function pay(...quoteIds: string[]): void {
  for (const quoteId of quoteIds) {
    mint.states.set(quoteId, 'PAID');
  }
}

function createQuoteIds(count: number, name = 'id'): string[] {
  return Array.from({ length: count }, (_, index) => `${name}-${index}`);
}

/** Advances time, polls whenever a quote is due and the poller allows it, and records the reports. */
async function poll(durationMs: number): Promise<void> {
  const untilMs = nowMs + durationMs;
  // Long durations use larger steps, so that the test stays fast.
  const stepMs = Math.max(250, durationMs / 2_000);
  while (true) {
    if (poller.getWaitMs() === 0 && quotes.hasDue()) {
      await poller.poll();
    }
    record();
    if (nowMs >= untilMs) {
      return;
    }
    nowMs = Math.min(nowMs + stepMs, untilMs);
  }
}

/** Simulates the database: a paid quote stays paid, and an ISSUED quote is no longer watched. */
function record(): void {
  const taken = quotes.takeReports(Number.MAX_SAFE_INTEGER);
  reports.push(...taken);
  quotes.applyRecorded(
    taken,
    taken.map(({ quoteId, state, source, shouldEndWatch }) => ({
      quoteId,
      state: state === 'UNPAID' ? 'PAID' : state,
      paidAtMs: nowMs,
      isWatched: state !== 'ISSUED' && shouldEndWatch !== true,
      hasStateChanged: state !== 'UNPAID',
      rejection: state === 'UNPAID' ? ('state_regression' as const) : null,
      source,
    })),
  );
}
