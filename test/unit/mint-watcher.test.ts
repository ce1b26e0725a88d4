import { expect, it, onTestFinished } from 'vitest';
import type { CheckClass } from '../../src/domain/poll-schedule.ts';
import { openLog } from '../../src/log.ts';
import type { RecordObservations } from '../../src/usecases/record-observations.ts';
import { MintWatcher } from '../../src/watcher/mint-watcher.ts';
import { PollRound } from '../../src/watcher/poll-round.ts';
import { eventually } from '../helpers/eventually.ts';

/** What a mint is asked about next, where it knows none of many quotes. */

const MINT = 'https://mint.example';

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

/** A mint that refuses every batch and answers no read. */
function watch({ listDue }: Pick<MintWatcherQuotes, 'listDue'>) {
  const client = {
    waitMs: () => 0,
    checkQuotes: async () => ({ outcome: 'refused' as const, status: 400, detail: 'unknown' }),
    readQuote: async () => ({ outcome: 'rate_limited' as const, retryAfterMs: 1_000 }),
  };
  const clock = () => 1_790_000_000_000;
  const watcher = new MintWatcher({
    mintUrl: MINT,
    quotes: {
      listDue,
      listWatched: async () => [],
      pullInUncovered: async () => undefined,
      pullInFromFuture: async () => 0,
    },
    infos: { get: async () => null },
    adoptLimits: async () => undefined,
    pollRound: new PollRound(MINT, client, clock),
    recordObservations: {
      record: async () => ({ news: [], finished: [] }),
      postpone: async () => undefined,
    } as unknown as RecordObservations,
    openSubscription: () => {
      throw new Error('the mint has no socket');
    },
    onNews: () => undefined,
    clock,
    log: openLog('silent'),
  });
  return { watcher, stop: () => watcher.stop() };
}

type MintWatcherQuotes = ConstructorParameters<typeof MintWatcher>[0]['quotes'];
