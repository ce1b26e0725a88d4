import { sql } from 'kysely';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Hold } from '../../demo/test-mint/holds.ts';
import type { TestMint } from '../../demo/test-mint.ts';
import type { Database } from '../../src/database/database.ts';
import { openTestDatabase, postgresUrl, type TestDatabase } from '../helpers/database.ts';
import { EcashPayer } from '../helpers/ecash-payer.ts';
import { NutpostProcess } from '../helpers/nutpost-process.ts';
import { type BlockedWrite, blockWrites, waitUntil } from '../helpers/postgres-backends.ts';
import { startMint } from '../helpers/start-test-mint.ts';
import { TEST_JWT_SECRET, TEST_TREASURY_SECRET } from '../helpers/test-environment.ts';
import { TestWallet } from '../helpers/test-wallet.ts';
import { buyUsername, fetchUsernameOwner } from '../helpers/username-buyer.ts';

/** A process is killed at each step of a purchase; another process completes the purchase. */

/** A power of two, so that a token is one proof. */
const PRICE_SAT = 16;

/** Two starts of a process on a busy machine. */
const TEST_TIMEOUT_MS = 180_000;

/** Recovery runs every five seconds. */
const SETTLED_WITHIN_MS = 90_000;

let testDatabase: TestDatabase;
let database: Database;
let mint: TestMint;
let payer: EcashPayer;
/** Releases the locks of a test. */
let clear: BlockedWrite['unblock'];

beforeEach(async () => {
  ({ testDatabase, database } = await openTestDatabase());
  mint = await startMint();
  payer = await EcashPayer.open(mint);
  clear = () => undefined;
});

afterEach(() => clear());

/** @param hangUp disconnects the buyer */
type StopAt = (hangUp: () => void) => Promise<BlockedWrite> | BlockedWrite;

/** `isRecorded`: the journal has the purchase, so it is finished without the buyer. */
interface Step {
  stopAt: StopAt;
  isRecorded: boolean;
  /** Whether the obstacle stays until the purchase is completed. */
  clearsLate?: boolean;
}

const STEPS: Record<string, Step> = {
  'before it is recorded': {
    stopAt: () => blockWrites(database, 'username_purchase_proofs', 'username_purchase_proofs'),
    isRecorded: false,
  },
  'before the mint gets the token': {
    stopAt: () => stopOf(mint.holdNext('POST /v1/swap', 'before')),
    isRecorded: true,
  },
  'before the mint gets the token, which arrives later': {
    stopAt: () => stopOf(mint.holdNext('POST /v1/swap', 'before')),
    isRecorded: true,
    clearsLate: true,
  },
  'while the mint redeems the token': {
    stopAt: () => stopOf(mint.holdNext('POST /v1/swap', 'during')),
    isRecorded: true,
  },
  'after the mint redeemed the token': {
    stopAt: () => stopOf(mint.holdNext('POST /v1/swap', 'after')),
    isRecorded: true,
  },
  'before the proofs are stored': {
    stopAt: () => blockWrites(database, 'treasury_proofs', 'treasury_proofs'),
    isRecorded: true,
  },
  'before the buyer is answered': { stopAt: stopAfterCommit, isRecorded: true },
};

it.each(Object.entries(STEPS))(
  'finishes a purchase whose process is killed %s, once',
  async (_step, { stopAt, isRecorded, clearsLate = false }) => {
    const [first, second] = [startProcess(), startProcess()];
    const there = await second.waitForOrigin();
    const wallet = new TestWallet(await first.waitForOrigin());
    const token = await payer.mintToken(PRICE_SAT);
    await crash(first, stopAt, wallet, token);
    if (!clearsLate) {
      await clear();
    }
    if (isRecorded) {
      // The buyer does not retry.
      await vi.waitFor(
        async () => {
          await expireLeases();
          expect(await purchases()).toEqual(['completed']);
        },
        { timeout: SETTLED_WITHIN_MS },
      );
      await expectSoldOnce(wallet, token, there);
    } else {
      expect(await purchases()).toEqual([]);
      expect(await payer.fetchTokenState(token)).toBe('UNSPENT');
    }
    await clear();
    const answer = await buyUsername(wallet.withOrigin(there), 'crashed', token);
    expect(answer).toMatchObject({ status: 201, body: { data: { user: { name: 'crashed' } } } });
    expect((await buyUsername(new TestWallet(there), 'crashed')).status).toBe(409);
    await expectSoldOnce(wallet, token, there);
  },
  TEST_TIMEOUT_MS,
);

it(
  'leaves a purchase to the process that holds its lease; a request to another process waits for the result',
  async () => {
    const [first, second] = [startProcess(), startProcess()];
    const there = await second.waitForOrigin();
    const wallet = new TestWallet(await first.waitForOrigin());
    const token = await payer.mintToken(PRICE_SAT);
    const hold = mint.holdNext('POST /v1/swap', 'before');
    const answer = buyUsername(wallet, 'kept', token);
    await hold.reached;
    const other = buyUsername(wallet.withOrigin(there), 'kept', token);
    const rival = buyUsername(new TestWallet(there), 'kept', await payer.mintToken(PRICE_SAT));
    expect((await rival).status).toBe(409);
    hold.release();
    expect((await answer).status).toBe(201);
    expect((await other).status).toBe(201);
    expect(mint.requestCounts['POST /v1/swap']).toBe(1);
    expect(mint.requestCounts['POST /v1/checkstate']).toBe(0);
  },
  TEST_TIMEOUT_MS,
);

function startProcess(): NutpostProcess {
  return new NutpostProcess('serve', {
    DATABASE_URL: postgresUrl(testDatabase),
    DEFAULT_MINT_URL: mint.url,
    JWT_SECRET: TEST_JWT_SECRET,
    TREASURY_SECRET: TEST_TREASURY_SECRET,
    USERNAME_PRICE_SAT: String(PRICE_SAT),
  });
}

/** Kills a process at a step of a purchase. The buyer gets no response. */
async function crash(
  process: NutpostProcess,
  stopAt: StopAt,
  wallet: TestWallet,
  token: string,
): Promise<void> {
  const buyer = new AbortController();
  const stop = await stopAt(() => buyer.abort());
  ({ unblock: clear } = stop);
  const answer = buyUsername(wallet, 'crashed', token, buyer.signal).then(
    ({ status }) => status,
    () => 'none',
  );
  await stop.reached;
  await process.kill();
  expect(await answer).toBe('none');
}

function stopOf(hold: Hold): BlockedWrite {
  return { reached: hold.reached, unblock: () => hold.release() };
}

/** The buyer disconnects before the purchase is completed. */
function stopAfterCommit(hangUp: () => void): BlockedWrite {
  const hold = mint.holdNext('POST /v1/swap', 'after');
  const reached = hold.reached.then(async () => {
    hangUp();
    hold.release();
    await waitUntil(async () => (await purchases()).join() === 'completed');
  });
  return { reached, unblock: () => undefined };
}

async function expireLeases(): Promise<void> {
  await sql`
    update username_purchases
    set lease_expires_at = 0, next_attempt_at = 0
    where state = 'open'
  `.execute(database.db);
}

async function purchases(): Promise<string[]> {
  const rows = await database.db.selectFrom('username_purchases').select('state').execute();
  return rows.map(({ state }) => state);
}

/** Expects that the buyer got the name for one token, and that the treasury has its value. */
async function expectSoldOnce(wallet: TestWallet, token: string, base: string): Promise<void> {
  expect(await fetchUsernameOwner(base, 'crashed')).toBe(wallet.pubkey);
  expect(await payer.fetchTokenState(token)).toBe('SPENT');
  expect(await purchases()).toEqual(['completed']);
  const kept = await database.db.selectFrom('treasury_proofs').select('amount_sat').execute();
  expect(kept.reduce((sum, { amount_sat }) => sum + Number(amount_sat), 0)).toBe(PRICE_SAT);
}
