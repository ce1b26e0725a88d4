import { beforeEach, expect, it, onTestFinished } from 'vitest';
import { EcashPayer } from '../helpers/recipients/ecash-payer.ts';
import type { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { fetchUsernameOwner, requestUsername } from '../helpers/recipients/username-requests.ts';
import {
  createTestEnvironment,
  type TestEnvironment,
} from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

/** Username purchases at a mint whose keysets expire (NUT-02, `final_expiry`). */

const PRICE_SAT = 16;
const HOUR_MS = 60 * 60_000;
const YEAR_MS = 365 * 24 * HOUR_MS;

let clock: TestClock;
let environment: TestEnvironment;
let wallet: RecipientClient;
/** Of a keyset that has a fee and does not expire. */
let token: string;

beforeEach(async () => {
  clock = new TestClock();
  environment = await createTestEnvironment({
    env: { USERNAME_PRICE_SAT: String(PRICE_SAT) },
    mint: { inputFeePpk: 100, now: clock.now },
    overrides: { clock: clock.now },
  });
  onTestFinished(() => environment.close());
  wallet = environment.newWallet();
  token = await mintToken();
});

it('returns 402 with the reason if the token has expired', async () => {
  addFreeKeyset(HOUR_MS);
  const expiringToken = await mintToken();
  clock.advance(HOUR_MS);
  await expectExpired(expiringToken);
});

it('stores when the ecash expires, also if the mint rejects the first swap as expired', async () => {
  const expiresAtMs = addFreeKeyset(YEAR_MS);
  environment.mint.expireNextSwaps(1);
  expect((await requestUsername(wallet, 'alice', token)).status).toBe(201);
  const { db } = environment.database;
  const rows = await db.selectFrom('treasury_proofs').select('expires_at').execute();
  expect(new Set(rows.map(({ expires_at }) => expires_at))).toEqual(new Set([expiresAtMs]));
});

it('returns 402 if the mint rejects a second swap as expired, too', async () => {
  environment.mint.expireNextSwaps(2);
  await expectExpired(token);
  expect(await fetchUsernameOwner(environment.origin, 'alice')).toBeUndefined();
});

async function expectExpired(payment: string): Promise<void> {
  const { status, body } = await requestUsername(wallet, 'alice', payment);
  const message = 'The token has expired: the mint no longer accepts its keyset.';
  expect({ status, message: body.message }).toEqual({ status: 402, message });
}

async function mintToken(): Promise<string> {
  return (await EcashPayer.open(environment.mint)).mintToken(PRICE_SAT);
}

function addFreeKeyset(lifetimeMs: number): number {
  const finalExpirySeconds = Math.floor((clock.now() + lifetimeMs) / 1000);
  environment.mint.rotateKeyset({ inputFeePpk: 0, finalExpirySeconds });
  return finalExpirySeconds * 1000;
}
