import { beforeAll, beforeEach, expect, it, onTestFinished } from 'vitest';
import type { TestMintSwitches } from '../../demo/test-mint/switches.ts';
import { deleteOldRows } from '../../src/database/retention-store.ts';
import { transaction } from '../../src/database/transaction.ts';
import { HISTORY_RETENTION_MS } from '../../src/limits.ts';
import { countPurchasesByState } from '../../src/usernames/purchase-store.ts';
import { revokeUsername } from '../../src/usernames/username-store.ts';
import { EcashPayer } from '../helpers/recipients/ecash-payer.ts';
import type { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { fetchUsernameOwner, requestUsername } from '../helpers/recipients/username-requests.ts';
import {
  createTestEnvironment,
  startAdditionalService,
  type TestEnvironment,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

/** Username purchases that meet other requests, keysets or secrets. test/integration/purchase-recovery.test.ts has failures. */

const PRICE_SAT = 16;
const SECOND_MS = 1_000;
const ENV = { USERNAME_PRICE_SAT: String(PRICE_SAT) };

const clock = new TestClock();
const environment = useTestEnvironment({ env: ENV, overrides: { clock: clock.now } });
let payer: EcashPayer;
let wallet: RecipientClient;

beforeAll(async () => {
  payer = await EcashPayer.open(environment.mint);
});

beforeEach(() => {
  wallet = environment.newWallet();
});

it('assigns the name that was requested last, even if the clock goes backwards', async () => {
  await buy('first');
  clock.advance(-3 * SECOND_MS);
  const { body } = await buy('second');
  expect(body.data.user.name).toBe('second');
  expect(await fetchUsernameOwner(environment.origin, 'second')).toBe(wallet.pubkey);
  clock.advance(-3 * SECOND_MS);
  expect((await requestUsername(wallet, 'first')).body.data.user.name).toBe('first');
});

it('accepts a token of a new keyset, but requests the keysets of the mint at most every 5 s', async () => {
  const { mint, newWallet } = await createSeparateEnvironment();
  const buyer = newWallet();
  const mintToken = async () => (await EcashPayer.open(mint)).mintToken(PRICE_SAT);
  expect((await requestUsername(buyer, 'before', await mintToken())).status).toBe(201);
  clock.advance(SECOND_MS);
  mint.rotateKeyset();
  const token = await mintToken();
  expect((await requestUsername(buyer, 'after', token)).status).toBe(402);
  clock.advance(5 * SECOND_MS);
  expect((await requestUsername(buyer, 'after', token)).status).toBe(201);
});

it('spends no token at a mint that cannot restore ecash', async () => {
  const { mint, newWallet } = await createSeparateEnvironment({ supportsRestore: false });
  const token = await (await EcashPayer.open(mint)).mintToken(PRICE_SAT);
  expect((await requestUsername(newWallet(), 'unsafe', token)).status).toBe(500);
  expect(mint.requestCounts['POST /v1/swap']).toBe(0);
});

it('does not reserve a name for a token that is pending in another swap', async () => {
  const proofs = await payer.mintProofs(PRICE_SAT);
  const token = payer.encodeToken(proofs);
  const hold = environment.mint.holdNext('POST /v1/swap', 'during');
  const otherSwap = payer.wallet.receive(proofs);
  await hold.reached;
  expect(await payer.fetchTokenState(token)).toBe('PENDING');

  const { status, body } = await requestUsername(wallet, 'squatted', token);
  const message = 'The token is being spent elsewhere.';
  expect({ status, message: body.message }).toEqual({ status: 402, message });
  const validToken = await payer.mintToken(PRICE_SAT);
  expect((await requestUsername(environment.newWallet(), 'squatted', validToken)).status).toBe(201);
  hold.release();
  await otherSwap;
});

it('sells nothing at a service after another one started with a different TREASURY_SECRET', async () => {
  const differentSecret = { TREASURY_SECRET: 'not the one that sealed it, but as long' };
  const separateEnvironment = await createSeparateEnvironment();
  const buyer = separateEnvironment.newWallet();
  const env = { ...ENV, ...differentSecret };
  const overrides = { clock: clock.now };
  const laterService = await startAdditionalService(separateEnvironment, env, overrides);
  const token = await (await EcashPayer.open(separateEnvironment.mint)).mintToken(PRICE_SAT);
  expect((await requestUsername(buyer, 'sealed', token)).status).toBe(500);
  const laterBuyer = buyer.withOrigin(laterService.publicOrigin);
  expect((await requestUsername(laterBuyer, 'sealed', token)).status).toBe(201);
  await laterService.stop();
  // A service does not start with a secret that cannot decrypt the stored proofs.
  await expect(startAdditionalService(separateEnvironment, ENV)).rejects.toThrow(
    /^TREASURY_SECRET: is not/,
  );
  const noSecret = { TREASURY_SECRET: '', DATA_DIR: '/nonexistent' };
  await expect(startAdditionalService(separateEnvironment, noSecret)).rejects.toThrow(
    /^TREASURY_SECRET: is missing/,
  );
});

it('does not assign a revoked name again to the token that bought it', async () => {
  const token = await payer.mintToken(PRICE_SAT);
  expect((await requestUsername(wallet, 'taken', token)).status).toBe(201);
  await transaction(environment.database.db, (tx) => revokeUsername(tx, 'taken', clock.now()));
  const { status, body } = await requestUsername(wallet, 'taken', token);
  expect(status).toBe(402);
  expect(body.message).toMatch(/another purchase/);
  expect(await fetchUsernameOwner(environment.origin, 'taken')).toBeUndefined();
});

it('deletes failed purchases after the retention period and keeps completed ones', async () => {
  const spentProofs = await payer.mintProofs(PRICE_SAT);
  await payer.wallet.receive(spentProofs);
  const failed = await requestUsername(wallet, 'failed', payer.encodeToken(spentProofs));
  expect(failed.status).toBe(402);
  await buy('bought');
  const { db } = environment.database;
  await deleteOldRows(db, 'username_purchases', 10);
  const counts = { open: 0, completed: 1, failed: 1 };
  expect(await countPurchasesByState(db, wallet.pubkey)).toEqual(counts);
  const closed_at = Date.now() - HISTORY_RETENTION_MS - 1;
  await db.updateTable('username_purchases').set({ closed_at }).execute();
  await deleteOldRows(db, 'username_purchases', 10);
  expect(await countPurchasesByState(db, wallet.pubkey)).toEqual({ ...counts, failed: 0 });
});

async function createSeparateEnvironment(
  switches: Partial<TestMintSwitches> = {},
): Promise<TestEnvironment> {
  const overrides = { clock: clock.now };
  const separateEnvironment = await createTestEnvironment({
    env: ENV,
    mint: { switches },
    overrides,
  });
  onTestFinished(() => separateEnvironment.close());
  return separateEnvironment;
}

async function buy(name: string) {
  const response = await requestUsername(wallet, name, await payer.mintToken(PRICE_SAT));
  expect({ status: response.status, body: response.body }).toMatchObject({ status: 201 });
  return response;
}
