import { setImmediate } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { MintInfo } from '../../src/domain/mint-info.ts';
import type { CheckClass } from '../../src/domain/poll-schedule.ts';
import type { ObservedState, QuoteObservation } from '../../src/domain/quote.ts';
import { openLog } from '../../src/log.ts';
import type { MintSubscription } from '../../src/mint/mint-subscription.ts';
import type { RecordObservations } from '../../src/usecases/record-observations.ts';
import { MintWatcher, type MintWatcherParts } from '../../src/watcher/mint-watcher.ts';
import { PollRound } from '../../src/watcher/poll-round.ts';
import { eventually } from '../helpers/eventually.ts';

/** One mint's watch: what it is asked about next, and what is recorded of what it said. */

const MINT = 'https://mint.example';
const NOW_MS = 1_790_000_000_000;

it('a class full of quotes that a mint does not know leaves the others their turns', async () => {
  const firstOfRounds: (CheckClass | undefined)[] = [];
  const { watcher, stop } = watch({
    listDue: async (_mint, _until, limit, order) => {
      firstOfRounds.push(order[0]);
      return Array.from({ length: limit }, (_, index) => ({
        quoteId: `${order[0]}-${index}`,
        createdAtMs: 0,
      }));
    },
  });
  onTestFinished(stop);
  watcher.start();
  for (let round = 1; round <= 8; round += 1) {
    watcher.poll();
    await eventually(() => {
      expect(firstOfRounds).toHaveLength(round);
      expect(watcher.isPolling).toBe(false);
    });
  }
  expect(firstOfRounds).toEqual([...firstOfRounds.slice(0, 4), ...firstOfRounds.slice(0, 4)]);
  expect(new Set(firstOfRounds).size).toBe(3);
});

describe('when the database was away, what was recorded shortly before', () => {
  it('is recorded again, of each quote the last, and nothing that is older', async () => {
    let nowMs = NOW_MS;
    const { mint, recorded } = watchSocket(() => nowMs);
    await mint.says('old', 'PAID');
    nowMs += 60_000;
    await mint.says('new', 'PAID');
    await mint.says('new', 'ISSUED');
    recorded.length = 0;
    mint.watcher.hearAgain(nowMs);
    await eventually(() => expect(recorded).toEqual(['new ISSUED']));
  });

  it('does not replace what was heard since, and could not be recorded', async () => {
    let nowMs = NOW_MS;
    const { mint, recorded, failure } = watchSocket(() => nowMs);
    await mint.says('one', 'PAID');
    nowMs += 1;
    failure.error = new Error('the database is away');
    await mint.says('one', 'ISSUED');
    failure.error = null;
    recorded.length = 0;
    mint.watcher.hearAgain(nowMs);
    await eventually(() => expect(recorded).toEqual(['one ISSUED']));
  });
});

/** A mint with a socket, and what is recorded of it. */
function watchSocket(clock: () => number) {
  const recorded: string[] = [];
  const failure: { error: Error | null } = { error: null };
  let say = (_observations: QuoteObservation[]) => {};
  const opened = Promise.withResolvers<void>();
  const { watcher, stop } = watch({
    clock,
    infos: { get: async () => ({ subscriptions: true }) as MintInfo },
    record: async (_mintUrl, observations) => {
      recorded.push(...observations.map(({ quoteId, state }) => `${quoteId} ${state}`));
      if (failure.error !== null) {
        throw failure.error;
      }
      return { news: [...observations], finished: [] };
    },
    openSubscription: ({ onObservations }) => {
      say = onObservations;
      opened.resolve();
      const nothing = () => undefined;
      const close = async () => undefined;
      const socket = { watch: nothing, unwatch: nothing, polledNews: nothing, close };
      return { ...socket, covers: () => true } as unknown as MintSubscription;
    },
  });
  onTestFinished(stop);
  watcher.start();
  const says = async (quoteId: string, state: ObservedState) => {
    await opened.promise;
    const count = recorded.length;
    say([{ quoteId, state }]);
    await eventually(() => expect(recorded.length).toBe(count + 1));
    // What is recorded is learnt in the same turn.
    await setImmediate();
  };
  return { mint: { watcher, says }, recorded, failure };
}

/** A mint that refuses every batch and answers no read. */
function watch(given: {
  listDue?: MintWatcherParts['quotes']['listDue'];
  infos?: MintWatcherParts['infos'];
  record?: RecordObservations['record'];
  openSubscription?: MintWatcherParts['openSubscription'];
  clock?: () => number;
}) {
  const client = {
    waitMs: () => 0,
    checkQuotes: async () => ({ outcome: 'refused' as const, status: 400, detail: 'unknown' }),
    readQuote: async () => ({ outcome: 'rate_limited' as const, retryAfterMs: 1_000 }),
  };
  const clock = given.clock ?? (() => NOW_MS);
  const watcher = new MintWatcher({
    mintUrl: MINT,
    quotes: {
      listDue: given.listDue ?? (async () => []),
      listWatched: async () => [],
      pullInUncovered: async () => undefined,
      pullInFromFuture: async () => 0,
    },
    infos: given.infos ?? { get: async () => null },
    adoptLimits: async () => undefined,
    pollRound: new PollRound(MINT, client, clock),
    recordObservations: {
      record: given.record ?? (async () => ({ news: [], finished: [] })),
      postpone: async () => undefined,
    } as unknown as RecordObservations,
    openSubscription:
      given.openSubscription ??
      (() => {
        throw new Error('the mint has no socket');
      }),
    onNews: () => undefined,
    clock,
    log: openLog('silent'),
  });
  return { watcher, stop: () => watcher.stop() };
}
