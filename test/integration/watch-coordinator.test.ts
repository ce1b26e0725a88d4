import { beforeEach, expect, it } from 'vitest';
import { createLogger } from '../../src/log.ts';
import { findMintContact, type MintContact } from '../../src/mints/mint-store.ts';
import { insertQuotes } from '../../src/quotes/quote-store.ts';
import type { MintWatcher } from '../../src/watcher/mint-watcher.ts';
import { type CoordinatorContext, WatchCoordinator } from '../../src/watcher/watch-coordinator.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';
import { eventually } from '../helpers/eventually.ts';
import { createMintPolicy } from '../helpers/mints/mint-policy.ts';
import { buildUnpaidQuote, randomPubkey } from '../helpers/recipients/quote-fixtures.ts';

const OWN_MINT = 'https://own.example';
const PROCESS_ID = 'this process';

const database = useTestDatabase();

beforeEach(async () => {
  await database.db.deleteFrom('quotes').execute();
  await database.db.deleteFrom('watch_processes').execute();
});

it('polls at most six user mints per scan, and each of 48 in turn', async () => {
  const userMints = Array.from({ length: 48 }, (_, index) => `https://mint-${index}.example`);
  const pollsPerScan: string[][] = [];
  const watcher = await startWatcher([...userMints, OWN_MINT], (mintUrl) => ({
    isWaitingForTurn: mintUrl !== OWN_MINT,
    tick: () => {
      if (mintUrl === OWN_MINT) {
        pollsPerScan.push([]);
      }
    },
    poll: () => pollsPerScan.at(-1)?.push(mintUrl),
  }));
  await eventually(() => expect(pollsPerScan.flat().length).toBeGreaterThanOrEqual(48));
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
    await addProcess('another process', stored);
    const counts = Promise.withResolvers<[ReadonlyMap<string, number>, number]>();
    const mints = ['https://user.example', OWN_MINT];
    const watcher = await startWatcher(mints, () => ({ unpaidCount: 20 }), {
      watchBudget: {
        setCounts: (...newCounts) => {
          counts.resolve(newCounts);
          return [];
        },
      },
    });
    expect(await counts.promise).toEqual([new Map([['https://user.example', 1]]), unpaid]);
    await watcher.stop();
  },
);

it('rescans from the newest remaining row if a database failover lost later rows', async () => {
  let nowMs = 0;
  const found: number[] = [];
  const watchExisting: MintWatcher['watchExisting'] = (quotes) => {
    found.push(...quotes.map(({ id }) => id));
  };
  const watcher = await startWatcher([OWN_MINT], () => ({ watchExisting }), {
    monotonicMs: () => nowMs,
  });
  await eventually(() => expect(found).toHaveLength(1));
  const { db } = database;
  await db.updateTable('quotes').set({ id: 50_000 }).execute();
  nowMs += 15_000;
  await eventually(() => expect(found).toContain(50_000));
  await db.updateTable('quotes').set({ id: 40_000 }).execute();
  nowMs += 15_000;
  await eventually(() => expect(found).toContain(40_000));
  await watcher.stop();
});

it('stores outages of mints at once, and the time of an answer once a minute', async () => {
  let contact: MintContact = { answeredAtMs: null, failingSinceMs: null, failure: null };
  let scanned = Promise.withResolvers<void>();
  const { db } = database;
  await db.insertInto('mints').values({ url: OWN_MINT, info: '{}', fetched_at: 0 }).execute();
  const watcher = await startWatcher([OWN_MINT], () => ({
    tick: () => scanned.resolve(),
    get contact() {
      return contact;
    },
  }));
  const scan = async (changes: Partial<MintContact>) => {
    contact = { ...contact, ...changes };
    // The first tick may belong to a scan that began before the change.
    for (let count = 0; count < 3; count += 1) {
      scanned = Promise.withResolvers();
      await scanned.promise;
    }
    return await findMintContact(db, OWN_MINT);
  };
  expect(await scan({ answeredAtMs: 0 })).toMatchObject({ answeredAtMs: 0 });
  expect(await scan({ answeredAtMs: 59_999 })).toMatchObject({ answeredAtMs: 0 });
  expect(await scan({ answeredAtMs: 60_000 })).toMatchObject({ answeredAtMs: 60_000 });
  const outage = { failingSinceMs: 61_000, failure: 'connection refused' };
  expect(await scan(outage)).toMatchObject(outage);
  const recovery = { answeredAtMs: 62_000, failingSinceMs: null, failure: null };
  expect(await scan(recovery)).toMatchObject(recovery);
  await watcher.stop();
});

async function addProcess(id: string, unpaidQuotes = 0): Promise<void> {
  await database.db
    .insertInto('watch_processes')
    .values({ id, lease_expires_at: Date.now() + 15_000, unpaid_quotes: unpaidQuotes })
    .execute();
}

/** Starts a watcher in a process that holds the leases of these mints, each of which has a watched quote. */
async function startWatcher(
  mints: readonly string[],
  createFakeMintWatcher: (mintUrl: string) => Partial<MintWatcher>,
  options: {
    watchBudget?: CoordinatorContext['watchBudget'];
    monotonicMs?: () => number;
  } = {},
): Promise<WatchCoordinator> {
  const { db } = database;
  await insertQuotes(
    db,
    mints.map((mintUrl) => buildUnpaidQuote(randomPubkey(), { mintUrl })),
  );
  await addProcess(PROCESS_ID);
  await db
    .insertInto('mint_leases')
    .values(mints.map((mint_url) => ({ mint_url, process_id: PROCESS_ID })))
    .execute();
  const context: CoordinatorContext = {
    db,
    mintPolicy: createMintPolicy(OWN_MINT),
    processId: PROCESS_ID,
    watchBudget: options.watchBudget ?? { setCounts: () => [] },
    getUntrustedProxy: () => null,
    announce: () => undefined,
    scanIntervalMs: 1,
    monotonicMs: options.monotonicMs ?? (() => performance.now()),
    log: createLogger('silent'),
  };
  const watcher = new WatchCoordinator(context, (mintUrl) => {
    const fake = {
      isWaitingForTurn: false,
      unpaidCount: 0,
      tick: () => undefined,
      watchExisting: () => undefined,
      stop: async () => undefined,
      contact: { answeredAtMs: null, failingSinceMs: null, failure: null },
    };
    const overrides = Object.getOwnPropertyDescriptors(createFakeMintWatcher(mintUrl));
    return Object.defineProperties(fake, overrides) as unknown as MintWatcher;
  });
  await watcher.start();
  return watcher;
}
