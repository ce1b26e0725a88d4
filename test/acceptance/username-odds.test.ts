import type { Proof } from '@cashu/cashu-ts';
import { afterEach, beforeAll, beforeEach, expect, it, onTestFinished } from 'vitest';
import { HISTORY_MS } from '../../src/retention.ts';
import { Store } from '../../src/store.ts';
import { EcashPayer } from '../helpers/ecash-payer.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { buyUsername, ownerOf } from '../helpers/username-buyer.ts';
import type { TestWallet } from '../helpers/wallet.ts';
import { openWorld, startBeside, useWorld, type World } from '../helpers/world.ts';

/** Purchases during which something unexpected happens (spec.md section 4.6). */

const PRICE_SAT = 16;
const DAY_MS = 24 * 60 * 60_000;
const ENV = { USERNAME_PRICE_SAT: String(PRICE_SAT) };

const clock = new TestClock();
const world = useWorld({ env: ENV, surroundings: { clock: clock.now } });
let payer: EcashPayer;
let wallet: TestWallet;

beforeAll(async () => {
  payer = await EcashPayer.open(world.mint);
});

beforeEach(() => {
  wallet = world.newWallet();
});

afterEach(() => {
  mintRecovers();
  // Longer than the service leaves a mint alone after several failures.
  clock.advance(60_000);
});

it('of forty purchases of one name at the same moment, one wins and spends one token', async () => {
  const buyers = Array.from({ length: 5 }, () => world.newWallet());
  const proofs = await proofsOfPrice(40);
  const race = await Promise.all(
    proofs.map(async ({ dleq: _slowToCheck, ...proof }, index) => {
      const buyer = buyers[index % buyers.length] as TestWallet;
      const { status, body } = await buyUsername(buyer, 'wanted', payer.encode([proof]));
      return { pubkey: buyer.pubkey, result: `${status} ${body.message ?? ''}` };
    }),
  );
  expect(world.mint.requestCounts['POST /v1/swap']).toBe(1);
  const winner = await ownerOf(world.base, 'wanted');
  const resultsOf = (isWinner: boolean) =>
    race.filter(({ pubkey }) => (pubkey === winner) === isWinner).map(({ result }) => result);
  expect(resultsOf(true)).toEqual(Array(8).fill('201 '));
  expect(resultsOf(false)).toEqual(Array(32).fill('409 This username is already taken.'));
  const states = await payer.wallet.checkProofsStates(proofs);
  const spent = race.filter((_, index) => states[index]?.state !== 'UNSPENT');
  expect(spent.map(({ pubkey }) => pubkey)).toEqual([winner]);
});

it('the name that was asked for last is the one, though the clock goes back in between', async () => {
  await buy('first');
  clock.advance(-3_000);
  const { body } = await buy('second');
  expect(body.data.user.name).toBe('second');
  expect(await ownerOf(world.base, 'second')).toBe(wallet.pubkey);
  clock.advance(-3_000);
  expect((await buyUsername(wallet, 'first')).body.data.user.name).toBe('first');
});

it('a token that may be spent is never called unused, however long the mint is silent', async () => {
  const token = await stuck('silent');
  world.mint.switches.chaos = { rates: { error: 1 } };
  clock.advance(DAY_MS);
  const { status, body } = await buyUsername(wallet, 'silent', token);
  expect(status).toBe(500);
  expect(body.message).toMatch(/under way/);
});

it.each([
  ['a higher price', { USERNAME_PRICE_SAT: '64' }],
  ['no price', { USERNAME_PRICE_SAT: '0' }],
  ['no sale any more', { USERNAME_PRICE_SAT: '' }],
  ['another mint', { ...ENV, USERNAME_MINT_URL: 'http://127.0.0.1:1' }],
])('a purchase under way ends well after a start with %s', async (terms, env) => {
  const wanted = `changing${terms.replaceAll(/\W/g, '')}`;
  const token = await stuck(wanted);
  mintRecovers();
  const next = await startBeside(world, env, { clock: clock.now });
  const { status, body } = await buyUsername(wallet.at(next.publicOrigin), wanted, token);
  await next.stop();
  expect({ status, name: body.data?.user.name }).toEqual({ status: 201, name: wanted });
  expect(await payer.stateOf(token)).toBe('SPENT');
});

it('a token of a new keyset is taken as soon as the keysets may be read again', async () => {
  const fresh = await openFresh();
  const buyer = fresh.newWallet();
  const first = await (await EcashPayer.open(fresh.mint)).token(PRICE_SAT);
  expect((await buyUsername(buyer, 'before', first)).status).toBe(201);
  clock.advance(1_000);
  fresh.mint.rotateKeyset();
  const token = await (await EcashPayer.open(fresh.mint)).token(PRICE_SAT);
  expect((await buyUsername(buyer, 'after', token)).status).toBe(402);
  clock.advance(5_000);
  expect((await buyUsername(buyer, 'after', token)).status).toBe(201);
});

it('no name is held for a token that is pending in something else', async () => {
  const proofs = await payer.proofs(PRICE_SAT);
  const token = payer.encode(proofs);
  const hold = world.mint.hold('POST /v1/swap', 'during');
  const swapping = payer.wallet.receive(proofs);
  await hold.reached;
  expect(await payer.stateOf(token)).toBe('PENDING');

  const { status, body } = await buyUsername(wallet, 'squatted', token);
  expect({ status, message: body.message }).toEqual({
    status: 402,
    message: 'The token is being spent elsewhere.',
  });
  const good = await payer.token(PRICE_SAT);
  expect((await buyUsername(world.newWallet(), 'squatted', good)).status).toBe(201);
  hold.release();
  await swapping;
});

it('two services with different secrets do not sell side by side', async () => {
  const other = { TREASURY_SECRET: 'not the one that sealed it, but as long' };
  const fresh = await openFresh();
  const buyer = fresh.newWallet();
  const second = await startBeside(fresh, { ...ENV, ...other }, { clock: clock.now });
  const token = await (await EcashPayer.open(fresh.mint)).token(PRICE_SAT);
  expect((await buyUsername(buyer, 'sealed', token)).status).toBe(500);
  expect((await buyUsername(buyer.at(second.publicOrigin), 'sealed', token)).status).toBe(201);
  await second.stop();
  // Nor does a service start without the secret that sealed what is stored.
  await expect(startBeside(fresh, ENV)).rejects.toThrow(/^TREASURY_SECRET: is not/);
  const none = { TREASURY_SECRET: '', DATA_DIR: '/nonexistent' };
  await expect(startBeside(fresh, none)).rejects.toThrow(/^TREASURY_SECRET: is missing/);
});

it('a wallet that repeats an old request does not change the name that its user has now', async () => {
  const token = await stuck('older');
  mintRecovers();
  await buy('newer');
  expect((await buyUsername(wallet, 'older', token)).body.data.user.name).toBe('newer');
  expect((await buyUsername(wallet, 'older', token)).body.data.user.name).toBe('newer');
  expect(await ownerOf(world.base, 'newer')).toBe(wallet.pubkey);
  // It was paid for all the same.
  expect((await buyUsername(world.newWallet(), 'older')).status).toBe(409);
  expect((await buyUsername(wallet, 'older')).body.data.user.name).toBe('older');
});

it('a name that the operator takes away is not had back with the token that bought it', async () => {
  const token = await payer.token(PRICE_SAT);
  expect((await buyUsername(wallet, 'taken', token)).status).toBe(201);
  const store = new Store(world.database.db);
  await store.transaction((tx) => tx.usernames.takeAway('taken'));
  const { status, body } = await buyUsername(wallet, 'taken', token);
  expect(status).toBe(402);
  expect(body.message).toMatch(/another purchase/);
  expect(await ownerOf(world.base, 'taken')).toBeUndefined();
});

it('purchases that came to nothing are forgotten after a while, and others are not', async () => {
  const spent = await payer.proofs(PRICE_SAT);
  await payer.wallet.receive(spent);
  expect((await buyUsername(wallet, 'nothing', payer.encode(spent))).status).toBe(402);
  await buy('something');
  const { purchases } = new Store(world.database.db);
  expect(await purchases.count(wallet.pubkey)).toEqual({ open: 0, done: 1, undone: 1 });
  expect(await purchases.pruneUndone(10)).toBe(false);
  expect((await purchases.count(wallet.pubkey)).undone).toBe(1);
  await world.database.db
    .updateTable('username_purchases')
    .set({ settled_at: Date.now() - HISTORY_MS - 1 })
    .execute();
  await purchases.pruneUndone(10);
  expect(await purchases.count(wallet.pubkey)).toEqual({ open: 0, done: 1, undone: 0 });
});

/** A service that has sold nothing yet. */
async function openFresh(): Promise<World> {
  const fresh = await openWorld({ env: ENV, surroundings: { clock: clock.now } });
  onTestFinished(() => fresh.close());
  return fresh;
}

async function buy(name: string) {
  const answer = await buyUsername(wallet, name, await payer.token(PRICE_SAT));
  expect({ status: answer.status, body: answer.body }).toMatchObject({ status: 201 });
  return answer;
}

/** The mint is well, and what rested after its failures is over. */
function mintRecovers(): void {
  world.mint.switches.chaos = null;
  clock.advance(3_000);
}

/** A purchase that the mint did and then said nothing more of. */
async function stuck(name: string): Promise<string> {
  const token = await payer.token(PRICE_SAT);
  world.mint.switches.chaos = {
    rates: {},
    ratesByRoute: { 'POST /v1/swap': { cutAfter: 1 }, 'POST /v1/checkstate': { error: 1 } },
  };
  const { status, body } = await buyUsername(wallet, name, token);
  expect({ status, message: body.message }).toEqual({
    status: 500,
    message: expect.stringContaining('under way'),
  });
  return token;
}

/** Mints proofs of the price, twenty at a time: a larger request would block the mint of this process. */
async function proofsOfPrice(count: number): Promise<Proof[]> {
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
