import type { Proof } from '@cashu/cashu-ts';
import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Hold } from '../../demo/test-mint/holds.ts';
import { TestMint } from '../../demo/test-mint.ts';
import { MintRateLimiter } from '../../src/mints/mint-rate-limiter.ts';
import { GuardedFetch } from '../../src/net/guarded-fetch.ts';
import { startService } from '../../src/service.ts';
import { Store } from '../../src/store.ts';
import { createTreasury } from '../../src/usernames/create-usernames.ts';
import { openProof, Sealer } from '../../src/usernames/ecash/sealer.ts';
import { useDatabase } from '../helpers/database.ts';
import { EcashPayer } from '../helpers/ecash-payer.ts';
import { eventually } from '../helpers/eventually.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { TEST_TREASURY_SECRET, testConfig } from '../helpers/test-environment.ts';
import { TestWallet } from '../helpers/test-wallet.ts';
import { buyUsername } from '../helpers/username-buyer.ts';

/** A process hangs in the middle of a purchase; another process recovers the purchase. */

const PRICE_SAT = 21;
const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

const database = useDatabase();
let clock: TestClock;
let mint: TestMint;
let payer: EcashPayer;
let logs: LogCapture;

beforeEach(async () => {
  clock = new TestClock();
  mint = await TestMint.start();
  payer = await EcashPayer.open(mint);
  logs = new LogCapture('error');
});

afterEach(async () => {
  await mint.close();
  await Promise.all(stops.splice(0).map((stop) => stop()));
  for (const table of ['treasury_proofs', 'username_purchases', 'users', 'usernames'] as const) {
    await database.db.deleteFrom(table).execute();
  }
  expect(logs.lines).toEqual([]);
});

/** Stops what a test started. */
const stops: (() => Promise<void>)[] = [];

describe('an abandoned purchase', () => {
  it('is completed by the buyer’s next request if that comes before recovery', async () => {
    const { wallet, token } = await abandon(mint.holdNext('POST /v1/swap', 'after'));
    clock.advance(-SECOND_MS);
    const base = await startProcess();
    clock.advance(SECOND_MS);
    expect((await buyUsername(wallet.withOrigin(base), 'left', token)).status).toBe(201);
    await expectSoldOnce(token);
  });

  it('is completed once although its process continues after another one completed it', async () => {
    const hold = mint.holdNext('POST /v1/swap', 'before');
    const { wallet, token, answer } = await abandon(hold);
    await openRun().round();
    await expectSoldOnce(token);
    hold.release();
    // The process may not know the result; then it asks the client to repeat the request.
    expect([201, 500]).toContain(await answer);
    expect((await buyUsername(wallet, 'left', token)).status).toBe(201);
    await expectSoldOnce(token);
  });
});

it('leases a purchase from when it is recorded, however long the mint took before', async () => {
  const keysets = mint.holdNext('GET /v1/keysets', 'before');
  const swap = mint.holdNext('POST /v1/swap', 'before');
  const { answer } = await begin(keysets);
  clock.advance(45 * SECOND_MS);
  keysets.release();
  await swap.reached;
  const opened = await database.db
    .selectFrom('username_purchases')
    .select(['created_at', 'next_attempt_at', 'lease_expires_at'])
    .executeTakeFirstOrThrow();
  const nowMs = clock.now();
  expect(opened).toMatchObject({ created_at: nowMs, next_attempt_at: nowMs });
  expect(opened.lease_expires_at).toBeGreaterThan(nowMs);
  swap.release();
  expect(await answer).toBe(201);
});

describe('a mint that reports the token', () => {
  it('as pending is polled until it is not', async () => {
    const hold = mint.holdNext('POST /v1/swap', 'during');
    const { token } = await abandon(hold);
    const run = openRun();
    await run.round();
    expect(await states()).toEqual(['open']);
    clock.advance(2 * MINUTE_MS);
    await run.round();
    expect(await states()).toEqual(['open']);
    expect(mint.requestCounts['POST /v1/swap']).toBe(1);
    hold.release();
    await eventually(async () => expect(await payer.fetchTokenState(token)).toBe('SPENT'));
    clock.advance(2 * MINUTE_MS);
    await run.round();
    // The first process runs again, and may be the one that completes it.
    await eventually(async () => expect(await states()).toEqual(['completed']));
    await expectSoldOnce(token);
  });

  it('as spent elsewhere is believed after a second check a minute later', async () => {
    const hold = mint.holdNext('POST /v1/swap', 'before');
    const { token, proofs } = await abandon(hold);
    await payer.wallet.receive(proofs);
    const run = openRun();
    await run.round();
    clock.advance(59 * SECOND_MS);
    await run.round();
    expect(await states()).toEqual(['open']);
    clock.advance(2 * SECOND_MS);
    await run.round();
    expect(await states()).toEqual(['failed']);
    expect(await database.db.selectFrom('treasury_proofs').select('y').execute()).toEqual([]);

    const base = await startProcess();
    const next = new TestWallet(base, clock.now);
    expect((await buyUsername(next, 'left', token)).status).toBe(402);
    const { status } = await buyUsername(next, 'left', await payer.mintToken(PRICE_SAT));
    expect(status).toBe(201);
  });
});

describe('a mint that changed its keyset', () => {
  it.each([
    ['with the same fee', 0],
    ['with a higher fee', 2_000],
  ])('%s meanwhile pays in the new one', async (_what, inputFeePpk) => {
    const { token } = await abandon(mint.holdNext('POST /v1/swap', 'before'));
    clock.advance(10 * SECOND_MS);
    const keysetId = mint.rotateKeyset({ inputFeePpk });
    await openRun().round();
    await expectSoldOnce(token);
    expect(new Set((await kept()).map(({ id }) => id))).toEqual(new Set([keysetId]));
  });
});

describe('a mint that cannot be reached', () => {
  it('for hours is retried with backoff, and the purchase is completed when it is back', async () => {
    const { token } = await abandon(mint.holdNext('POST /v1/swap', 'after'));
    mint.switches.chaos = { rates: { cutBefore: 1 } };
    const run = openRun();
    const askedBefore = mint.requestCounts['POST /v1/checkstate'];
    for (let passedMs = 0; passedMs < 3 * HOUR_MS; passedMs += 30 * SECOND_MS) {
      clock.advance(30 * SECOND_MS);
      await run.round();
    }
    const asked = mint.requestCounts['POST /v1/checkstate'] - askedBefore;
    expect(asked).toBeGreaterThanOrEqual(3 * 6);
    expect(asked).toBeLessThanOrEqual(3 * 6 + 10);
    expect(await states()).toEqual(['open']);

    mint.switches.chaos = null;
    clock.advance(11 * MINUTE_MS);
    await run.round();
    await expectSoldOnce(token);
  });
});

/** Begins a purchase whose process hangs at the hold, and expires its lease. */
async function abandon(hold: Hold) {
  const begun = await begin(hold);
  await expireLeases();
  return begun;
}

async function begin(hold: Hold) {
  const wallet = new TestWallet(await startProcess(), clock.now);
  const proofs: Proof[] = await payer.mintProofs(PRICE_SAT);
  const token = payer.encodeToken(proofs);
  const answer = buyUsername(wallet, 'left', token).then(
    ({ status }) => status,
    () => 'none',
  );
  await hold.reached;
  return { wallet, token, proofs, answer };
}

/** @returns the public origin of the service */
async function startProcess(): Promise<string> {
  const service = await startService(config(), { database, log: logs.log, clock: clock.now });
  stops.push(() => service.stop());
  return service.publicOrigin;
}

/** The recovery job of another process, run by the test instead of every five seconds. */
function openRun(): { round: () => Promise<void> } {
  const fetch = new GuardedFetch({ allowPrivateNetworks: true });
  stops.push(() => fetch.close());
  const store = new Store(database.db);
  const { log } = logs;
  const monotonicMs = clock.now;
  const treasury = createTreasury({
    settings: config(),
    store,
    mints: {
      treasuryFetch: fetch,
      limiter: new MintRateLimiter({ store: store.mints, monotonicMs, log }),
    },
    clock: clock.now,
    monotonicMs,
    log,
  });
  return { round: async () => treasury?.processor.resumeDue() };
}

function config() {
  return testConfig(mint.url, { USERNAME_PRICE_SAT: String(PRICE_SAT) });
}

async function expireLeases(): Promise<void> {
  await sql`
    update username_purchases set lease_expires_at = ${clock.now() - SECOND_MS}
    where lease_holder is not null
  `.execute(database.db);
}

async function states(): Promise<string[]> {
  const rows = await database.db.selectFrom('username_purchases').select('state').execute();
  return rows.map(({ state }) => state);
}

/** Opens the proofs of the treasury. */
async function kept() {
  const rows = await database.db
    .selectFrom('treasury_proofs')
    .select(['y', 'proof as sealed'])
    .execute();
  const sealer = new Sealer(TEST_TREASURY_SECRET);
  return await Promise.all(rows.map((row) => openProof(sealer, row)));
}

/** Expects one completed purchase, and that the treasury has the value of its token, unspent. */
async function expectSoldOnce(token: string): Promise<void> {
  expect(await states()).toEqual(['completed']);
  expect(await payer.fetchTokenState(token)).toBe('SPENT');
  const proofs = await kept();
  expect(proofs.reduce((sum, { amount }) => sum + amount, 0)).toBe(PRICE_SAT);
  const spent = await payer.wallet.checkProofsStates(proofs);
  expect(new Set(spent.map(({ state }) => state))).toEqual(new Set(['UNSPENT']));
}
