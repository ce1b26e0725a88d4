import type { Proof } from '@cashu/cashu-ts';
import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Hold } from '../../demo/test-mint/holds.ts';
import { TestMint } from '../../demo/test-mint.ts';
import { MintRateLimiter } from '../../src/mints/mint-rate-limiter.ts';
import { GuardedFetch } from '../../src/net/guarded-fetch.ts';
import { Sealer } from '../../src/sealer.ts';
import { startService } from '../../src/service.ts';
import { type PurchaseContext, resumeDuePurchases } from '../../src/usernames/purchase.ts';
import { type Swap, sendSwap } from '../../src/usernames/token-swap.ts';
import { openProof } from '../../src/usernames/treasury.ts';
import { createPurchaseContext } from '../../src/usernames/usernames-module.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';
import { eventually } from '../helpers/eventually.ts';
import { EcashPayer } from '../helpers/recipients/ecash-payer.ts';
import { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { requestUsername } from '../helpers/recipients/username-requests.ts';
import { LogCapture } from '../helpers/service/log-capture.ts';
import { createTestConfig, TEST_TREASURY_SECRET } from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

/** In these tests, a process stalls during a username purchase, and another process recovers the purchase. */

const PRICE_SAT = 21;
const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const MAX_BACKOFF_MS = MINUTE_MS;
const MAX_TRANSIT_MS = 2 * MINUTE_MS;

const database = useTestDatabase();
let clock: TestClock;
let mint: TestMint;
let payer: EcashPayer;
let logs: LogCapture;
const cleanups: (() => Promise<void>)[] = [];

beforeEach(async () => {
  clock = new TestClock();
  mint = await TestMint.start();
  payer = await EcashPayer.open(mint);
  logs = new LogCapture('error');
});

afterEach(async () => {
  await mint.close();
  await Promise.all(cleanups.splice(0).map((cleanup) => cleanup()));
  for (const table of ['treasury_proofs', 'username_purchases', 'users', 'usernames'] as const) {
    await database.db.deleteFrom(table).execute();
  }
  expect(logs.lines).toEqual([]);
});

describe('an abandoned purchase', () => {
  it('is reported as in progress to its buyer, and as taken to others, until the recovery job completes it', async () => {
    const { wallet, token } = await beginPurchase(mint.holdNext('POST /v1/swap', 'after'));
    const buyer = wallet.withOrigin(await startProcess());
    const repeated = await requestUsername(buyer, 'alice', token);
    expect(repeated).toMatchObject({ status: 503, body: { code: 'purchase_in_progress' } });
    expect(Number(repeated.headers.get('retry-after'))).toBeGreaterThan(0);
    const otherToken = await payer.mintToken(PRICE_SAT);
    const withOtherToken = await requestUsername(buyer, 'alice', otherToken);
    expect(withOtherToken).toMatchObject({ status: 409, body: { code: 'token_not_used' } });
    const otherBuyer = new RecipientClient(buyer.origin, clock.now);
    expect((await requestUsername(otherBuyer, 'alice')).status).toBe(409);
    // The price and the mint may have changed.
    const env = { USERNAME_PRICE_SAT: '', USERNAME_MINT_URL: 'http://127.0.0.1:1' };
    const recoveryJob = createRecoveryJob(env);
    await recoveryJob.run();
    // One of the purchase itself.
    expect(mint.requestCounts['POST /v1/checkstate']).toBe(1);
    await expireLeases();
    await recoveryJob.run();
    expect((await requestUsername(buyer, 'alice', token)).status).toBe(201);
    await expectSoldOnce(token);
  });
});

describe('a process that has lost the lease', () => {
  it('does not end the purchase if the mint is redeeming the token for another process', async () => {
    const lateSwap = mint.holdNext('POST /v1/swap', 'before');
    const { token, status } = await abandonPurchase(lateSwap);
    const redeeming = mint.holdNext('POST /v1/swap', 'during');
    const recovery = createRecoveryJob().run();
    await redeeming.reached;
    lateSwap.release();
    expect(await status).toBe(503);
    redeeming.release();
    await recovery;
    await expectSoldOnce(token);
  });

  it('sends no swap', async () => {
    const { token } = await abandonPurchase(mint.holdNext('POST /v1/swap', 'before'));
    const check = mint.holdNext('POST /v1/checkstate', 'after');
    const lateRecovery = createRecoveryJob().run();
    await check.reached;
    await expireLeases();
    await createRecoveryJob().run();
    const swaps = mint.requestCounts['POST /v1/swap'];
    check.release();
    await lateRecovery;
    expect(mint.requestCounts['POST /v1/swap']).toBe(swaps);
    await expectSoldOnce(token);
  });
});

describe('a purchase', () => {
  it('stays open while the mint reports the token as pending, and is completed afterwards', async () => {
    const hold = mint.holdNext('POST /v1/swap', 'during');
    const { token } = await abandonPurchase(hold);
    const recoveryJob = createRecoveryJob();
    await recoveryJob.run();
    expect(await readPurchaseStates()).toEqual(['open']);
    clock.advance(2 * MINUTE_MS);
    await recoveryJob.run();
    expect(await readPurchaseStates()).toEqual(['open']);
    expect(mint.requestCounts['POST /v1/swap']).toBe(1);
    hold.release();
    await eventually(async () => expect(await payer.fetchTokenState(token)).toBe('SPENT'));
    clock.advance(2 * MINUTE_MS);
    await recoveryJob.run();
    // The first process received its response, so either process may complete the purchase.
    await eventually(async () => expect(await readPurchaseStates()).toEqual(['completed']));
    await expectSoldOnce(token);
  });

  it('stays open if its late request makes the token pending when the recovery job repeats it', async () => {
    const lateSwap = mint.holdNext('POST /v1/swap', 'before');
    const { token } = await abandonPurchase(lateSwap);
    clock.advance(MAX_TRANSIT_MS);
    const repeatedSwap = mint.holdNext('POST /v1/swap', 'before');
    const recoveryJob = createRecoveryJob();
    const recovery = recoveryJob.run();
    await repeatedSwap.reached;
    const redeeming = mint.holdNext('POST /v1/swap', 'during');
    lateSwap.release();
    await redeeming.reached;
    repeatedSwap.release();
    await recovery;
    expect(await readPurchases()).toEqual([{ state: 'open', reason: 'pending at the mint' }]);
    redeeming.release();
    await eventually(async () => expect(await payer.fetchTokenState(token)).toBe('SPENT'));
    clock.advance(MAX_BACKOFF_MS);
    await recoveryJob.run();
    await expectSoldOnce(token);
  });

  it('stays open if the token is pending when its swap arrives, because a proxy may send a swap twice', async () => {
    const swap = mint.holdNext('POST /v1/swap', 'before');
    const { proofs, status } = await beginPurchase(swap);
    const otherSwap = mint.holdNext('POST /v1/swap', 'during');
    const spending = payer.wallet.receive(proofs);
    await otherSwap.reached;
    swap.release();
    expect(await status).toBe(503);
    expect(await readPurchases()).toEqual([{ state: 'open', reason: 'pending at the mint' }]);
    otherSwap.release();
    await spending;
  });

  it.each([
    ['with 429', () => mint.rateLimitNext('POST /v1/swap')],
    ['as expired', () => mint.expireNextSwaps(2)],
  ])(
    'is completed if a proxy sends its swap twice, and the mint rejects one copy %s',
    async (_, rejectNextSwap) => {
      const rejectedSwap = mint.holdNext('POST /v1/swap', 'before');
      const { token, status } = await beginPurchase(rejectedSwap);
      const executedSwap = mint.holdNext('POST /v1/swap', 'during');
      const copy = sendCopyOfSwap();
      await executedSwap.reached;
      rejectNextSwap();
      rejectedSwap.release();
      expect(await status).toBe(503);
      executedSwap.release();
      await copy;
      clock.advance(MAX_BACKOFF_MS);
      await createRecoveryJob().run();
      await expectSoldOnce(token);
    },
  );

  it('fails if the mint reports the token as spent elsewhere when no request can be in transit', async () => {
    const hold = mint.holdNext('POST /v1/swap', 'before');
    const { token, proofs } = await abandonPurchase(hold);
    await payer.wallet.receive(proofs);
    const recoveryJob = createRecoveryJob();
    await recoveryJob.run();
    clock.advance(MAX_TRANSIT_MS - SECOND_MS);
    await recoveryJob.run();
    expect(await readPurchaseStates()).toEqual(['open']);
    clock.advance(2 * SECOND_MS);
    await recoveryJob.run();
    expect(await readPurchaseStates()).toEqual(['failed']);
    expect(await database.db.selectFrom('treasury_proofs').select('y').execute()).toEqual([]);

    const nextBuyer = new RecipientClient(await startProcess(), clock.now);
    expect((await requestUsername(nextBuyer, 'alice', token)).status).toBe(402);
    const { status } = await requestUsername(nextBuyer, 'alice', await payer.mintToken(PRICE_SAT));
    expect(status).toBe(201);
  });

  it('restores the ecash of a second swap, with a new keyset, whose response is lost', async () => {
    const rejected = mint.holdNext('POST /v1/swap', 'before');
    const { token } = await beginPurchase(rejected);
    clock.advance(10 * SECOND_MS);
    mint.rotateKeyset();
    const repeated = mint.holdNext('POST /v1/swap', 'before');
    rejected.release();
    await repeated.reached;
    const executed = mint.holdNext('POST /v1/swap', 'after');
    repeated.release();
    await executed.reached;
    await expireLeases();
    await createRecoveryJob().run();
    await expectSoldOnce(token);
  });
});

describe('a purchase whose swap gets no answer although the token is unspent', () => {
  let purchase: Awaited<ReturnType<typeof abandonPurchase>>;
  let recoveryJob: ReturnType<typeof createRecoveryJob>;

  beforeEach(async () => {
    purchase = await abandonPurchase(mint.holdNext('POST /v1/swap', 'before'));
    mint.switches.chaos = { rates: {}, ratesByRoute: { 'POST /v1/swap': { error: 1 } } };
    recoveryJob = createRecoveryJob();
  });

  it('is undone after a day, when its last swap cannot be in transit, and then the token can buy the name', async () => {
    await recoverFor(DAY_MS - MINUTE_MS);
    expect(await readPurchases()).toEqual([{ state: 'open', reason: 'status 500' }]);
    let swaps = mint.requestCounts['POST /v1/swap'];
    let lastSwapAtMs = 0;
    const endsAtMs = clock.now() + HOUR_MS;
    while ((await readPurchaseStates())[0] === 'open' && clock.now() < endsAtMs) {
      clock.advance(10 * SECOND_MS);
      await recoveryJob.run();
      if (mint.requestCounts['POST /v1/swap'] > swaps) {
        swaps = mint.requestCounts['POST /v1/swap'];
        lastSwapAtMs = clock.now();
      }
    }
    expect(await readPurchases()).toEqual([{ state: 'failed', reason: 'no_response' }]);
    expect(lastSwapAtMs).toBeGreaterThan(0);
    expect(clock.now() - lastSwapAtMs).toBeGreaterThanOrEqual(MAX_TRANSIT_MS);
    expect(await payer.fetchTokenState(purchase.token)).toBe('UNSPENT');

    mint.switches.chaos = null;
    clock.advance(MAX_BACKOFF_MS);
    const wallet = purchase.wallet.withOrigin(await startProcess());
    expect((await requestUsername(wallet, 'alice', purchase.token)).status).toBe(201);
  });

  it('is not undone sooner if the mint was unreachable before it reported the token as unspent', async () => {
    mint.switches.chaos = { rates: { cutBefore: 1 } };
    await recoverFor(2 * DAY_MS);
    mint.switches.chaos = { rates: {}, ratesByRoute: { 'POST /v1/swap': { error: 1 } } };
    await recoverFor(DAY_MS - MINUTE_MS);
    expect(await readPurchaseStates()).toEqual(['open']);
    await recoverFor(HOUR_MS);
    expect(await readPurchaseStates()).toEqual(['failed']);
  });

  it('is completed if the mint executed the last swap without answering', async () => {
    await recoverFor(DAY_MS - MINUTE_MS);
    mint.switches.chaos = { rates: {}, ratesByRoute: { 'POST /v1/swap': { cutAfter: 1 } } };
    await recoverFor(HOUR_MS);
    await expectSoldOnce(purchase.token);
  });

  async function recoverFor(durationMs: number): Promise<void> {
    const endsAtMs = clock.now() + durationMs;
    while (clock.now() < endsAtMs) {
      clock.advance(Math.min(20 * MINUTE_MS, endsAtMs - clock.now()));
      await recoveryJob.run();
    }
  }
});

async function abandonPurchase(hold: Hold) {
  const purchase = await beginPurchase(hold);
  await expireLeases();
  return purchase;
}

async function beginPurchase(hold: Hold) {
  const wallet = new RecipientClient(await startProcess(), clock.now);
  const proofs: Proof[] = await payer.mintProofs(PRICE_SAT);
  const token = payer.encodeToken(proofs);
  const status = requestUsername(wallet, 'alice', token).then(
    (response) => response.status,
    () => 'no response',
  );
  await hold.reached;
  return { wallet, token, proofs, status };
}

async function startProcess(): Promise<string> {
  const service = await startService(createConfig(), {
    database,
    log: logs.log,
    clock: clock.now,
    monotonicMs: clock.now,
    // The tests run the recovery job themselves.
    purchaseRecoveryIntervalMs: HOUR_MS,
  });
  cleanups.push(() => service.stop());
  return service.publicOrigin;
}

function createRecoveryJob(env: Record<string, string> = {}): { run: () => Promise<void> } {
  const context = createContext(env);
  return { run: () => resumeDuePurchases(context) };
}

function createContext(env: Record<string, string> = {}): PurchaseContext {
  const fetch = new GuardedFetch({ allowPrivateNetworks: true });
  cleanups.push(() => fetch.close());
  const { log } = logs;
  const monotonicMs = clock.now;
  const context = createPurchaseContext({
    settings: createConfig(env),
    db: database.db,
    mints: {
      swapFetch: fetch,
      limiter: new MintRateLimiter({ monotonicMs, log }),
    },
    clock: clock.now,
    monotonicMs,
    log,
  });
  if (context === null) {
    throw new Error('no treasury secret');
  }
  return context;
}

/** Sends the same request as the process that has begun the purchase. */
async function sendCopyOfSwap(): Promise<void> {
  const context = createContext();
  const { id, sealed_proofs, outputs } = await database.db
    .selectFrom('username_purchases')
    .select(['id', 'sealed_proofs', 'outputs'])
    .executeTakeFirstOrThrow();
  const inputs = (await context.sealer.open(
    `purchase ${id}`,
    String(sealed_proofs),
  )) as Swap['inputs'];
  await sendSwap(context, { id, mintUrl: mint.url, inputs, outputPlans: JSON.parse(outputs) });
}

function createConfig(env: Record<string, string> = {}) {
  return createTestConfig(mint.url, { USERNAME_PRICE_SAT: String(PRICE_SAT), ...env });
}

async function expireLeases(): Promise<void> {
  await sql`
    update username_purchases set lease_expires_at = ${clock.now() - SECOND_MS}
    where lease_holder is not null
  `.execute(database.db);
}

async function readPurchases() {
  return await database.db.selectFrom('username_purchases').select(['state', 'reason']).execute();
}

async function readPurchaseStates(): Promise<string[]> {
  return (await readPurchases()).map(({ state }) => state);
}

async function readTreasuryProofs() {
  const stored = database.db.selectFrom('treasury_proofs');
  const rows = await stored.select(['y', 'proof as sealed']).execute();
  const sealer = new Sealer(TEST_TREASURY_SECRET);
  return await Promise.all(rows.map((row) => openProof(sealer, row)));
}

async function expectSoldOnce(token: string): Promise<void> {
  expect(await readPurchaseStates()).toEqual(['completed']);
  expect(await payer.fetchTokenState(token)).toBe('SPENT');
  const proofs = await readTreasuryProofs();
  expect(proofs.reduce((sum, { amount }) => sum + amount, 0)).toBe(PRICE_SAT);
  const proofStates = await payer.wallet.checkProofsStates(proofs);
  expect(new Set(proofStates.map(({ state }) => state))).toEqual(new Set(['UNSPENT']));
}
