import { expect, it } from 'vitest';
import { createLogger } from '../../src/log.ts';
import type { MintWatcher } from '../../src/watcher/mint-watcher.ts';
import { QuoteWatcher, type QuoteWatcherDeps } from '../../src/watcher/quote-watcher.ts';

const OWN_MINT = 'https://own.example';

it('polls the operator’s mint at each scan, however many user mints do not respond', async () => {
  const mints = [
    ...Array.from({ length: 100 }, (_, index) => `https://${index}.example`),
    OWN_MINT,
  ];
  const polls = new Map<string, number>();
  const scanned = Promise.withResolvers<void>();
  const watcher = watch(mints, (mintUrl) => ({
    isMintUnresponsive: true,
    tick: (mayPoll) => {
      polls.set(mintUrl, (polls.get(mintUrl) ?? 0) + (mayPoll ? 1 : 0));
      if (polls.get(OWN_MINT) === 10) {
        scanned.resolve();
      }
    },
  }));
  await watcher.start();
  await scanned.promise;
  await watcher.stop();
  expect(Math.max(...polls.values())).toBe(polls.get(OWN_MINT));
  expect(polls.get('https://0.example')).toBeLessThan(6);
});

it('reads new rows after the newest remaining one if a failover lost the latest commits', async () => {
  let nowMs = 0;
  let newestId = 50_000;
  const readAfter: number[] = [];
  const readAgain = Promise.withResolvers<void>();
  const watcher = watch([], () => ({}), {
    // A rescan is due each time.
    monotonicMs: () => {
      nowMs += 60_000;
      return nowMs;
    },
    quoteStore: {
      findMaxId: async () => newestId,
      listWatchedAfter: async (afterId) => {
        readAfter.push(afterId);
        // The failover happens while rows are read.
        newestId = 40_000;
        watcher.rescan();
        if (readAfter.length === 2) {
          readAgain.resolve();
        }
        return [];
      },
    },
  });
  await watcher.start();
  await readAgain.promise;
  await watcher.stop();
  expect(readAfter.slice(0, 2)).toEqual([49_000, 39_000]);
});

/** Creates a watcher of mints that this process owns. */
function watch(
  mints: readonly string[],
  watcherOf: (mintUrl: string) => Partial<MintWatcher>,
  given: {
    quoteStore?: Pick<QuoteWatcherDeps['quoteStore'], 'findMaxId' | 'listWatchedAfter'>;
    monotonicMs?: () => number;
  } = {},
): QuoteWatcher {
  return new QuoteWatcher({
    operatorMints: [OWN_MINT],
    quoteStore: {
      findMaxId: async () => 0,
      listWatchedAfter: async () => [],
      listWatchedMints: async () =>
        mints.map((mintUrl) => ({ mintUrl, ownerProcessId: 'this process' })),
      ...given.quoteStore,
    },
    leaseStore: {
      keepAlive: async () => true,
      countProcesses: async () => 1,
      release: async () => undefined,
      removeProcess: async () => undefined,
    } as unknown as QuoteWatcherDeps['leaseStore'],
    processId: 'this process',
    createMintWatcher: (mintUrl) =>
      ({
        isPolling: false,
        stop: async () => undefined,
        ...watcherOf(mintUrl),
      }) as unknown as MintWatcher,
    announce: () => undefined,
    scanIntervalMs: 1,
    monotonicMs: given.monotonicMs ?? (() => performance.now()),
    log: createLogger('silent'),
  });
}
