import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Hold } from '../../src/demo/test-mint/holds.ts';
import { TestMint } from '../../src/demo/test-mint.ts';
import type { Database } from '../../src/store/database.ts';
import type { Schema } from '../../src/store/schema.ts';
import { createTestDatabase, type TestDatabase } from '../helpers/database.ts';
import { EcashPayer } from '../helpers/ecash-payer.ts';
import { NutpostProcess } from '../helpers/nutpost-process.ts';
import { buyUsername, ownerOf } from '../helpers/username-buyer.ts';
import { expectOneWinner, raceForName } from '../helpers/username-race.ts';
import { waitingBackends } from '../helpers/waiting-backends.ts';
import { type ApiAnswer, TestWallet } from '../helpers/wallet.ts';
import { TEST_JWT_SECRET, TEST_TREASURY_SECRET } from '../helpers/world.ts';

/** A process is killed at each step of a purchase; what is there afterwards must be whole. */

/** A power of two, so that a token is one proof. */
const PRICE_SAT = 16;

/** Two starts of a process, and what a busy machine takes. */
const TEST_TIMEOUT_MS = 180_000;

/** A process looks every five seconds for purchases that did not end. */
const SETTLED_WITHIN_MS = 90_000;

/** From a request to the place where it is stopped. */
const REACHED_WITHIN_MS = 60_000;

/** A thousand purchases, and the thousand tokens for them. */
const RACE_TIMEOUT_MS = 180_000;

let testDatabase: TestDatabase;
let database: Database;
let mint: TestMint;
let payer: EcashPayer;
/** Ends what a test keeps locked, however the test ends. */
let unlock: () => Promise<void>;

beforeEach(async () => {
  testDatabase = await createTestDatabase();
  database = await testDatabase.open();
  mint = await TestMint.start();
  payer = await EcashPayer.open(mint);
  unlock = async () => undefined;
});

afterEach(async () => {
  await unlock();
  await mint.close();
  await database.close();
  await testDatabase.drop();
});

/** A place at which a purchase stands still. */
interface Stop {
  /** Resolves when it does. */
  reached: Promise<void>;
  /** What was in its way is gone; what was sent to the mint arrives all the same. */
  clear(): Promise<void>;
}

/** @param hangUp the buyer is gone */
type StopAt = (hangUp: () => void) => Promise<Stop>;

/** What is to be when nobody comes back. */
type Left = 'nothing' | 'the name';

const STEPS: [step: string, stop: StopAt, left: Left][] = [
  ['before it is written down', () => lockTable('username_purchase_proofs'), 'nothing'],
  [
    'before the mint gets the token',
    async () => stopOf(mint.hold('POST /v1/swap', 'before')),
    'the name',
  ],
  ['while the mint is at it', async () => stopOf(mint.hold('POST /v1/swap', 'during')), 'the name'],
  [
    'after the mint redeemed the token',
    async () => stopOf(mint.hold('POST /v1/swap', 'after')),
    'the name',
  ],
  ['before the proofs are kept', () => lockTable('treasury_proofs'), 'the name'],
  ['before the name is given', lockNameAfterSwap, 'the name'],
  ['before the buyer is answered', stopAfterCommit, 'the name'],
];

describe('a process that is killed', () => {
  it.each(STEPS)(
    '%s leaves a purchase that another process finishes, and the same request gets the same answer',
    async (_step, stop) => {
      const [first, second] = [startProcess(), startProcess()];
      const there = await originOf(second);
      const { wallet, token, clear } = await crash(first, stop);
      await clear();
      const again = wallet.at(there);
      const answer = await untilAnswered(() => buyUsername(again, 'crashed', token));
      expect(answer.status).toBe(201);
      expect(answer.body.data.user).toMatchObject({ pubkey: wallet.pubkey, name: 'crashed' });
      await expectSoldOnce(wallet, token, there);
      expect((await buyUsername(again, 'crashed', token)).status).toBe(201);
      expect((await buyUsername(new TestWallet(there), 'crashed')).status).toBe(409);
    },
    TEST_TIMEOUT_MS,
  );

  it.each(STEPS)(
    '%s leaves a purchase that is finished after a restart, though the buyer never comes back',
    async (_step, stop, left) => {
      const { wallet, token, clear } = await crash(startProcess(), stop);
      await clear();
      await makeDriversOld();
      const there = await originOf(startProcess());
      if (left === 'nothing') {
        expect(await purchases()).toEqual([]);
        expect(await payer.stateOf(token)).toBe('UNSPENT');
        expect(await ownerOf(there, 'crashed')).toBeUndefined();
        expect((await buyUsername(new TestWallet(there), 'crashed')).status).toBe(402);
        return;
      }
      await untilSettled();
      await expectSoldOnce(wallet, token, there);
    },
    TEST_TIMEOUT_MS,
  );

  it(
    'leaves a request on its way that the mint gets when all is finished, and changes nothing',
    async () => {
      const { wallet, token, clear } = await crash(startProcess(), async () =>
        stopOf(mint.hold('POST /v1/swap', 'before')),
      );
      await makeDriversOld();
      const there = await originOf(startProcess());
      await untilSettled();
      await expectSoldOnce(wallet, token, there);
      await clear();
      expect((await buyUsername(wallet.at(there), 'crashed', token)).status).toBe(201);
      await expectSoldOnce(wallet, token, there);
    },
    TEST_TIMEOUT_MS,
  );
});

describe('a process that lives', () => {
  it(
    'keeps its purchase, for which another one waits that is asked for the same',
    async () => {
      const first = startProcess();
      const there = await originOf(startProcess());
      const hold = mint.hold('POST /v1/swap', 'before');
      const wallet = new TestWallet(await originOf(first));
      const token = await payer.token(PRICE_SAT);
      const answer = buyUsername(wallet, 'kept', token);
      await hold.reached;
      const other = buyUsername(wallet.at(there), 'kept', token);
      const claim = buyUsername(new TestWallet(there), 'kept', await payer.token(PRICE_SAT));
      expect((await claim).status).toBe(409);
      hold.release();
      expect((await answer).status).toBe(201);
      expect((await other).status).toBe(201);
      expect(mint.requestCounts['POST /v1/swap']).toBe(1);
      expect(mint.requestCounts['POST /v1/checkstate']).toBe(0);
    },
    TEST_TIMEOUT_MS,
  );
});

describe('a thousand purchases of one name at the same moment, at two processes', () => {
  it(
    'have one winner, and everybody else keeps a token that can be spent',
    async () => {
      const bases = await Promise.all([startProcess(), startProcess()].map(originOf));
      const entries = await raceForName(mint, bases, 'wanted', {
        priceSat: PRICE_SAT,
        keys: 50,
      });
      expect(mint.requestCounts['POST /v1/swap']).toBe(1);
      await expectOneWinner(mint, bases, 'wanted', entries);
    },
    RACE_TIMEOUT_MS,
  );
});

function startProcess(): NutpostProcess {
  return new NutpostProcess('serve', {
    DATABASE_URL: databaseUrl(),
    DEFAULT_MINT_URL: mint.url,
    JWT_SECRET: TEST_JWT_SECRET,
    TREASURY_SECRET: TEST_TREASURY_SECRET,
    USERNAME_PRICE_SAT: String(PRICE_SAT),
  });
}

/** @returns the public origin of a process: requests are signed for that */
async function originOf(process: NutpostProcess): Promise<string> {
  return (await process.listening()).replace('127.0.0.1', 'localhost');
}

/** A buyer asks a process, which is killed where the purchase is stopped. */
async function crash(process: NutpostProcess, stopAt: StopAt) {
  const wallet = new TestWallet(await originOf(process));
  const token = await payer.token(PRICE_SAT);
  const buyer = new AbortController();
  const stop = await stopAt(() => buyer.abort());
  const answer = buyUsername(wallet, 'crashed', token, buyer.signal).then(
    ({ status }) => status,
    () => 'none',
  );
  const stopped = stop.reached.then(() => 'stopped');
  const early = answer.then((status) => (status === 'none' ? stopped : status));
  expect(await Promise.race([stopped, early])).toBe('stopped');
  await process.kill();
  expect(await answer).toBe('none');
  return { wallet, token, clear: stop.clear };
}

function stopOf(hold: Hold): Stop {
  return { reached: hold.reached, clear: async () => hold.release() };
}

/** A transaction of somebody else keeps everybody from writing into a table. */
async function lockTable(table: keyof Schema): Promise<Stop> {
  const locked = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const holding = database.db.transaction().execute(async (tx) => {
    await sql`lock table ${sql.table(table)} in exclusive mode`.execute(tx);
    locked.resolve();
    await released.promise;
  });
  await locked.promise;
  unlock = async () => {
    released.resolve();
    await holding;
  };
  const clear = async () => {
    await unlock();
    // The server notices that the process is gone when it is done with what that waited for.
    await vi.waitFor(async () => expect(await backendsInTransactions()).toBe(0), {
      timeout: REACHED_WITHIN_MS,
    });
  };
  const reached = vi.waitFor(
    async () => {
      expect(await waitingBackends(database)).toBe(1);
    },
    { timeout: REACHED_WITHIN_MS },
  );
  return { reached, clear };
}

/** Of the two times that a purchase writes to its name, the second one is stopped. */
async function lockNameAfterSwap(): Promise<Stop> {
  const hold = mint.hold('POST /v1/swap', 'after');
  const locking = hold.reached.then(async () => {
    const stop = await lockTable('usernames');
    hold.release();
    await stop.reached;
    return stop;
  });
  return {
    reached: locking.then(() => undefined),
    clear: async () => (await locking).clear(),
  };
}

/** All is done, and the buyer does not hear of it. */
async function stopAfterCommit(hangUp: () => void): Promise<Stop> {
  const hold = mint.hold('POST /v1/swap', 'after');
  const reached = hold.reached.then(async () => {
    hangUp();
    hold.release();
    await vi.waitFor(async () => expect(await purchases()).toEqual(['done']), {
      timeout: REACHED_WITHIN_MS,
    });
  });
  return { reached, clear: async () => undefined };
}

async function untilAnswered(ask: () => Promise<ApiAnswer>): Promise<ApiAnswer> {
  return await vi.waitFor(
    async () => {
      await makeDriversOld();
      const answer = await ask();
      expect(answer.status).not.toBe(500);
      return answer;
    },
    { timeout: SETTLED_WITHIN_MS },
  );
}

async function untilSettled(): Promise<void> {
  await vi.waitFor(
    async () => {
      await makeDriversOld();
      expect(await purchases()).toEqual(['done']);
    },
    { timeout: SETTLED_WITHIN_MS },
  );
}

/** As if the time of every run were over, and that of every purchase had come. */
async function makeDriversOld(): Promise<void> {
  await sql`
    update username_purchases
    set driver_until = clock_timestamp() - interval '1 second',
      next_try_at = clock_timestamp() - interval '1 second'
    where state = 'open'
  `.execute(database.db);
}

/** How each purchase stands. */
async function purchases(): Promise<string[]> {
  const rows = await database.db.selectFrom('username_purchases').select('state').execute();
  return rows.map(({ state }) => state);
}

/** The name is its buyer's, for one token, and the operator has what it was worth. */
async function expectSoldOnce(wallet: TestWallet, token: string, base: string): Promise<void> {
  expect(await ownerOf(base, 'crashed')).toBe(wallet.pubkey);
  expect(await payer.stateOf(token)).toBe('SPENT');
  expect(await purchases()).toEqual(['done']);
  const kept = await database.db.selectFrom('treasury_proofs').select('amount_sat').execute();
  expect(kept.reduce((sum, { amount_sat }) => sum + Number(amount_sat), 0)).toBe(PRICE_SAT);
}

async function backendsInTransactions(): Promise<number> {
  const { rows } = await sql`
    select pid from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null
  `.execute(database.db);
  return rows.length;
}

function databaseUrl(): string {
  if (testDatabase.location.kind !== 'postgres') {
    throw new Error('these tests need a PostgreSQL server: run `npm run test:postgres`');
  }
  return testDatabase.location.url;
}
