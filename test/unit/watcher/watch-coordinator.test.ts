import { expect, it } from 'vitest';
import { createLogger } from '../../../src/log.ts';
import type { MintContact } from '../../../src/mints/mint-store.ts';
import type { MintWatcher } from '../../../src/watcher/mint-watcher.ts';
import {
  WatchCoordinator,
  type WatchCoordinatorDeps,
} from '../../../src/watcher/watch-coordinator.ts';
import { createMintPolicy } from '../../helpers/mints/mint-policy.ts';

const OWN_MINT = 'https://own.example';

it('polls at most six user mints per scan, and each of 48 in turn', async () => {
  const userMints = Array.from({ length: 48 }, (_, index) => `https://mint-${index}.example`);
  const pollsPerScan: string[][] = [];
  const allPolled = Promise.withResolvers<void>();
  const watcher = createWatcher([...userMints, OWN_MINT], (mintUrl) => ({
    isWaitingForTurn: mintUrl !== OWN_MINT,
    tick: () => {
      if (mintUrl === OWN_MINT) {
        pollsPerScan.push([]);
      }
    },
    poll: () => {
      pollsPerScan.at(-1)?.push(mintUrl);
      if (pollsPerScan.flat().length === 48) {
        allPolled.resolve();
      }
    },
  }));
  await watcher.start();
  await allPolled.promise;
  await watcher.stop();
  expect(Math.max(...pollsPerScan.map((polls) => polls.length))).toBe(6);
  expect(pollsPerScan.flat().slice(0, 48).toSorted()).toEqual(userMints.toSorted());
});

it.each([
  ['this process', 10, 40],
  ['another process', 70, 70],
])(
  'counts the quotes for the limits; most of the unpaid ones are watched by %s',
  async (_process, stored, unpaid) => {
    const counts = Promise.withResolvers<[ReadonlyMap<string, number>, number]>();
    const watcher = createWatcher(['https://user.example', OWN_MINT], () => ({ unpaidCount: 20 }), {
      maxUnpaidStored: stored,
      quoteStore: {
        countWatchedByMint: async (mintUrls) => new Map(mintUrls.map((mintUrl) => [mintUrl, 3])),
      },
      watchBudget: {
        setCounts: (...newCounts) => {
          counts.resolve(newCounts);
          return [];
        },
      },
    });
    await watcher.start();
    expect(await counts.promise).toEqual([new Map([['https://user.example', 3]]), unpaid]);
    await watcher.stop();
  },
);

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

it('stores outages of mints at once, and the time of an answer once a minute', async () => {
  let contact: MintContact = { answeredAtMs: null, failingSinceMs: null, failure: null };
  let scanned = Promise.withResolvers<void>();
  const saved: unknown[] = [];
  const watcher = createWatcher([OWN_MINT], () => ({ tick: () => scanned.resolve() }), {
    getContact: () => contact,
    saveContacts: async (contacts) => void saved.push(...contacts),
  });
  const scan = async (changes: Partial<MintContact>) => {
    contact = { ...contact, ...changes };
    // The first tick may belong to a scan that began before the change.
    for (let count = 0; count < 3; count += 1) {
      scanned = Promise.withResolvers();
      await scanned.promise;
    }
    return saved.splice(0);
  };
  await watcher.start();
  expect(await scan({})).toEqual([]);
  expect(await scan({ answeredAtMs: 0 })).toMatchObject([{ mintUrl: OWN_MINT, answeredAtMs: 0 }]);
  expect(await scan({ answeredAtMs: 59_999 })).toEqual([]);
  expect(await scan({ answeredAtMs: 60_000 })).toMatchObject([{ answeredAtMs: 60_000 }]);
  const outage = { failingSinceMs: 61_000, failure: 'connection refused' };
  expect(await scan(outage)).toMatchObject([outage]);
  expect(await scan({ failure: 'timed out' })).toEqual([]);
  const recovery = { answeredAtMs: 62_000, failingSinceMs: null, failure: null };
  expect(await scan(recovery)).toMatchObject([recovery]);
  expect(await scan({ answeredAtMs: -3_600_000 })).toMatchObject([{ answeredAtMs: -3_600_000 }]);
  await watcher.stop();
});

/** Creates a watcher in a process that holds the leases of these mints. */
function createWatcher(
  mints: readonly string[],
  createFakeMintWatcher: (mintUrl: string) => Partial<MintWatcher>,
  options: {
    quoteStore?: Partial<WatchCoordinatorDeps['quoteStore']>;
    watchBudget?: WatchCoordinatorDeps['watchBudget'];
    monotonicMs?: () => number;
    getContact?: () => MintContact;
    saveContacts?: WatchCoordinatorDeps['saveContacts'];
    maxUnpaidStored?: number;
  } = {},
): WatchCoordinator {
  return new WatchCoordinator({
    mintPolicy: createMintPolicy(OWN_MINT),
    quoteStore: {
      countWatchedByMint: async () => new Map(),
      findMaxId: async () => 0,
      listWatchedAfter: async () => [],
      listWatchedMints: async () =>
        mints.map((mintUrl) => ({ mintUrl, ownerProcessId: 'this process' })),
      ...options.quoteStore,
    },
    leaseStore: {
      renewProcessLease: async () => true,
      readProcesses: async () => ({ count: 1, maxUnpaidQuotes: options.maxUnpaidStored ?? 0 }),
      removeProcess: async () => undefined,
    } as unknown as WatchCoordinatorDeps['leaseStore'],
    saveContacts: options.saveContacts ?? (async () => undefined),
    processId: 'this process',
    watchBudget: options.watchBudget ?? { setCounts: () => [] },
    getUntrustedProxy: () => null,
    createMintWatcher: (mintUrl) =>
      ({
        isWaitingForTurn: false,
        unpaidCount: 0,
        tick: () => undefined,
        stop: async () => undefined,
        get contact() {
          return (
            options.getContact?.() ?? { answeredAtMs: null, failingSinceMs: null, failure: null }
          );
        },
        ...createFakeMintWatcher(mintUrl),
      }) as unknown as MintWatcher,
    announce: () => undefined,
    scanIntervalMs: 1,
    monotonicMs: options.monotonicMs ?? (() => performance.now()),
    log: createLogger('silent'),
  });
}
