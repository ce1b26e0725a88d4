import { expect, it } from 'vitest';
import { createLogger } from '../../../src/log.ts';
import type { MintWatcher } from '../../../src/watcher/mint-watcher.ts';
import {
  WatchCoordinator,
  type WatchCoordinatorDeps,
} from '../../../src/watcher/watch-coordinator.ts';

const OWN_MINT = 'https://own.example';

it('polls the operator mint at every scan even if 100 user mints do not respond', async () => {
  const mints = [
    ...Array.from({ length: 100 }, (_, index) => `https://${index}.example`),
    OWN_MINT,
  ];
  const pollCounts = new Map<string, number>();
  const polledTenTimes = Promise.withResolvers<void>();
  const watcher = createWatcher(mints, (mintUrl) => ({
    isMintUnresponsive: true,
    tick: (mayPoll) => {
      pollCounts.set(mintUrl, (pollCounts.get(mintUrl) ?? 0) + (mayPoll ? 1 : 0));
      if (pollCounts.get(OWN_MINT) === 10) {
        polledTenTimes.resolve();
      }
    },
  }));
  await watcher.start();
  await polledTenTimes.promise;
  await watcher.stop();
  expect(Math.max(...pollCounts.values())).toBe(pollCounts.get(OWN_MINT));
  // At most 32 of the unresponsive user mints are polled at a time.
  expect(pollCounts.get('https://0.example')).toBeLessThan(6);
});

it('rescans from the newest remaining row if a database failover lost later rows', async () => {
  let nowMs = 0;
  let newestId = 50_000;
  const rescannedAfterIds: number[] = [];
  const secondRescan = Promise.withResolvers<void>();
  const watcher = createWatcher([], () => ({}), {
    // Each reading of the clock is a minute later, so that a rescan is always due.
    monotonicMs: () => {
      nowMs += 60_000;
      return nowMs;
    },
    quoteStore: {
      findMaxId: async () => newestId,
      listWatchedAfter: async (afterId) => {
        rescannedAfterIds.push(afterId);
        // Simulates a failover during the query.
        newestId = 40_000;
        watcher.reloadAll();
        if (rescannedAfterIds.length === 2) {
          secondRescan.resolve();
        }
        return [];
      },
    },
  });
  await watcher.start();
  await secondRescan.promise;
  await watcher.stop();
  // Each rescan reads the last 1,000 rows again.
  expect(rescannedAfterIds.slice(0, 2)).toEqual([49_000, 39_000]);
});

/** Creates a watcher in a process that holds the leases of these mints. */
function createWatcher(
  mints: readonly string[],
  createFakeMintWatcher: (mintUrl: string) => Partial<MintWatcher>,
  options: {
    quoteStore?: Pick<WatchCoordinatorDeps['quoteStore'], 'findMaxId' | 'listWatchedAfter'>;
    monotonicMs?: () => number;
  } = {},
): WatchCoordinator {
  return new WatchCoordinator({
    operatorMints: [OWN_MINT],
    quoteStore: {
      findMaxId: async () => 0,
      listWatchedAfter: async () => [],
      listWatchedMints: async () =>
        mints.map((mintUrl) => ({ mintUrl, ownerProcessId: 'this process' })),
      ...options.quoteStore,
    },
    leaseStore: {
      keepAlive: async () => true,
      countProcesses: async () => 1,
      release: async () => undefined,
      removeProcess: async () => undefined,
    } as unknown as WatchCoordinatorDeps['leaseStore'],
    processId: 'this process',
    createMintWatcher: (mintUrl) =>
      ({
        isPolling: false,
        stop: async () => undefined,
        ...createFakeMintWatcher(mintUrl),
      }) as unknown as MintWatcher,
    announce: () => undefined,
    scanIntervalMs: 1,
    monotonicMs: options.monotonicMs ?? (() => performance.now()),
    log: createLogger('silent'),
  });
}
