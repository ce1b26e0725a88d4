import type { Proof } from '@cashu/cashu-ts';
import { afterEach, beforeAll, beforeEach, expect, it, onTestFinished } from 'vitest';
import { HISTORY_RETENTION_MS } from '../../src/retention.ts';
import { Store } from '../../src/store.ts';
import { EcashPayer } from '../helpers/ecash-payer.ts';
import { TestClock } from '../helpers/test-clock.ts';
import {
  createTestEnvironment,
  startAdditionalService,
  type TestEnvironment,
  useTestEnvironment,
} from '../helpers/test-environment.ts';
import type { TestWallet } from '../helpers/test-wallet.ts';
import { buyUsername, fetchUsernameOwner } from '../helpers/username-buyer.ts';

/** Username purchases with failures, races and restarts (spec.md section 4.6). */

const PRICE_SAT = 16;
const DAY_MS = 24 * 60 * 60_000;
const ENV = { USERNAME_PRICE_SAT: String(PRICE_SAT) };

const clock = new TestClock();
const world = useTestEnvironment({ env: ENV, overrides: { clock: clock.now } });
let payer: EcashPayer;
let wallet: TestWallet;

beforeAll(async () => {
  payer = await EcashPayer.open(world.mint);
});

beforeEach(() => {
  wallet = world.newWallet();
});

afterEach(() => {
  recoverMint();
  // Longer than the cooldown after several mint failures.
  clock.advance(60_000);
});

it('sells a name once and spends one token if forty purchases run concurrently', async () => {
  const buyers = Array.from({ length: 5 }, () => world.newWallet());
  const proofs = await mintPriceProofs(40);
  const race = await Promise.all(
    proofs.map(async ({ dleq: _slowToCheck, ...proof }, index) => {
      const buyer = buyers[index % buyers.length] as TestWallet;
      const { status, body } = await buyUsername(buyer, 'wanted', payer.encodeToken([proof]));
      return { pubkey: buyer.pubkey, result: `${status} ${body.message ?? ''}` };
    }),
  );
  expect(world.mint.requestCounts['POST /v1/swap']).toBe(1);
  const winner = await fetchUsernameOwner(world.origin, 'wanted');
  const listResults = (isWinner: boolean) =>
    race.filter(({ pubkey }) => (pubkey === winner) === isWinner).map(({ result }) => result);
  expect(listResults(true)).toEqual(Array(8).fill('201 '));
  expect(listResults(false)).toEqual(Array(32).fill('409 This username is already taken.'));
  const states = await payer.wallet.checkProofsStates(proofs);
  const spent = race.filter((_, index) => states[index]?.state !== 'UNSPENT');
  expect(spent.map(({ pubkey }) => pubkey)).toEqual([winner]);
});

it('assigns the last requested name even if the clock goes backwards', async () => {
  await buy('first');
  clock.advance(-3_000);
  const { body } = await buy('second');
  expect(body.data.user.name).toBe('second');
  expect(await fetchUsernameOwner(world.origin, 'second')).toBe(wallet.pubkey);
  clock.advance(-3_000);
  expect((await buyUsername(wallet, 'first')).body.data.user.name).toBe('first');
});

it('keeps reporting a purchase as in progress while the mint does not confirm whether the token is spent', async () => {
  const token = await startStuckPurchase('silent');
  world.mint.switches.chaos = { rates: { error: 1 } };
  clock.advance(DAY_MS);
  const { status, body } = await buyUsername(wallet, 'silent', token);
  expect(status).toBe(500);
  expect(body.message).toMatch(/in progress/);
});

it.each([
  ['a higher price', { USERNAME_PRICE_SAT: '64' }],
  ['no price', { USERNAME_PRICE_SAT: '0' }],
  ['sales disabled', { USERNAME_PRICE_SAT: '' }],
  ['another mint', { ...ENV, USERNAME_MINT_URL: 'http://127.0.0.1:1' }],
])('completes a pending purchase after a restart with %s', async (change, env) => {
  const name = `changing${change.replaceAll(/\W/g, '')}`;
  const token = await startStuckPurchase(name);
  recoverMint();
  const next = await startAdditionalService(world, env, { clock: clock.now });
  const { status, body } = await buyUsername(wallet.withOrigin(next.publicOrigin), name, token);
  await next.stop();
  expect({ status, name: body.data?.user.name }).toEqual({ status: 201, name });
  expect(await payer.fetchTokenState(token)).toBe('SPENT');
});

it('accepts a token of a new keyset when the keyset cache expires', async () => {
  const fresh = await startFreshEnvironment();
  const buyer = fresh.newWallet();
  const first = await (await EcashPayer.open(fresh.mint)).mintToken(PRICE_SAT);
  expect((await buyUsername(buyer, 'before', first)).status).toBe(201);
  clock.advance(1_000);
  fresh.mint.rotateKeyset();
  const token = await (await EcashPayer.open(fresh.mint)).mintToken(PRICE_SAT);
  expect((await buyUsername(buyer, 'after', token)).status).toBe(402);
  clock.advance(5_000);
  expect((await buyUsername(buyer, 'after', token)).status).toBe(201);
});

it('does not reserve a name for a token that is pending in another operation', async () => {
  const proofs = await payer.mintProofs(PRICE_SAT);
  const token = payer.encodeToken(proofs);
  const hold = world.mint.holdNext('POST /v1/swap', 'during');
  const swapping = payer.wallet.receive(proofs);
  await hold.reached;
  expect(await payer.fetchTokenState(token)).toBe('PENDING');

  const { status, body } = await buyUsername(wallet, 'squatted', token);
  expect({ status, message: body.message }).toEqual({
    status: 402,
    message: 'The token is being spent elsewhere.',
  });
  const validToken = await payer.mintToken(PRICE_SAT);
  expect((await buyUsername(world.newWallet(), 'squatted', validToken)).status).toBe(201);
  hold.release();
  await swapping;
});

it('does not sell with a TREASURY_SECRET that differs from that of another service', async () => {
  const differentSecret = { TREASURY_SECRET: 'not the one that sealed it, but as long' };
  const fresh = await startFreshEnvironment();
  const buyer = fresh.newWallet();
  const second = await startAdditionalService(
    fresh,
    { ...ENV, ...differentSecret },
    { clock: clock.now },
  );
  const token = await (await EcashPayer.open(fresh.mint)).mintToken(PRICE_SAT);
  expect((await buyUsername(buyer, 'sealed', token)).status).toBe(500);
  expect((await buyUsername(buyer.withOrigin(second.publicOrigin), 'sealed', token)).status).toBe(
    201,
  );
  await second.stop();
  // A service does not start with a secret that cannot decrypt the stored proofs.
  await expect(startAdditionalService(fresh, ENV)).rejects.toThrow(/^TREASURY_SECRET: is not/);
  const noSecret = { TREASURY_SECRET: '', DATA_DIR: '/nonexistent' };
  await expect(startAdditionalService(fresh, noSecret)).rejects.toThrow(
    /^TREASURY_SECRET: is missing/,
  );
});

it('keeps the current name if a wallet repeats an older purchase request', async () => {
  const token = await startStuckPurchase('older');
  recoverMint();
  await buy('newer');
  expect((await buyUsername(wallet, 'older', token)).body.data.user.name).toBe('newer');
  expect((await buyUsername(wallet, 'older', token)).body.data.user.name).toBe('newer');
  expect(await fetchUsernameOwner(world.origin, 'newer')).toBe(wallet.pubkey);
  // The older name was paid for, so it stays reserved for this key.
  expect((await buyUsername(world.newWallet(), 'older')).status).toBe(409);
  expect((await buyUsername(wallet, 'older')).body.data.user.name).toBe('older');
});

it('does not return a revoked name for the token that bought it', async () => {
  const token = await payer.mintToken(PRICE_SAT);
  expect((await buyUsername(wallet, 'taken', token)).status).toBe(201);
  const store = new Store(world.database.db);
  await store.transaction((tx) => tx.usernames.revoke('taken'));
  const { status, body } = await buyUsername(wallet, 'taken', token);
  expect(status).toBe(402);
  expect(body.message).toMatch(/another purchase/);
  expect(await fetchUsernameOwner(world.origin, 'taken')).toBeUndefined();
});

it('deletes failed purchases after the retention period and keeps completed ones', async () => {
  const spent = await payer.mintProofs(PRICE_SAT);
  await payer.wallet.receive(spent);
  expect((await buyUsername(wallet, 'nothing', payer.encodeToken(spent))).status).toBe(402);
  await buy('something');
  const { purchases } = new Store(world.database.db);
  expect(await purchases.countByState(wallet.pubkey)).toEqual({ open: 0, completed: 1, failed: 1 });
  expect(await purchases.pruneFailed(10)).toBe(false);
  expect((await purchases.countByState(wallet.pubkey)).failed).toBe(1);
  await world.database.db
    .updateTable('username_purchases')
    .set({ closed_at: Date.now() - HISTORY_RETENTION_MS - 1 })
    .execute();
  await purchases.pruneFailed(10);
  expect(await purchases.countByState(wallet.pubkey)).toEqual({ open: 0, completed: 1, failed: 0 });
});

/** Starts a service with an empty database. */
async function startFreshEnvironment(): Promise<TestEnvironment> {
  const fresh = await createTestEnvironment({ env: ENV, overrides: { clock: clock.now } });
  onTestFinished(() => fresh.close());
  return fresh;
}

async function buy(name: string) {
  const response = await buyUsername(wallet, name, await payer.mintToken(PRICE_SAT));
  expect({ status: response.status, body: response.body }).toMatchObject({ status: 201 });
  return response;
}

/** Ends the mint's failures and the cooldown that follows them. */
function recoverMint(): void {
  world.mint.switches.chaos = null;
  clock.advance(3_000);
}

/** Starts a purchase whose swap succeeds at the mint, but whose response is lost. Returns the token. */
async function startStuckPurchase(name: string): Promise<string> {
  const token = await payer.mintToken(PRICE_SAT);
  world.mint.switches.chaos = {
    rates: {},
    ratesByRoute: { 'POST /v1/swap': { cutAfter: 1 }, 'POST /v1/checkstate': { error: 1 } },
  };
  const { status, body } = await buyUsername(wallet, name, token);
  expect({ status, message: body.message }).toEqual({
    status: 500,
    message: expect.stringContaining('in progress'),
  });
  return token;
}

/** Mints twenty proofs per request: larger requests would block the test mint, which runs in this process. */
async function mintPriceProofs(count: number): Promise<Proof[]> {
  const proofs: Proof[] = [];
  const amounts = Array<number>(20).fill(PRICE_SAT);
  const sumSat = amounts.length * PRICE_SAT;
  while (proofs.length < count) {
    const { quote, request } = await payer.wallet.createMintQuoteBolt11(sumSat);
    world.mint.pay(request);
    proofs.push(...(await payer.wallet.ops.mintBolt11(sumSat, quote).asRandom(amounts).run()));
  }
  return proofs;
}
