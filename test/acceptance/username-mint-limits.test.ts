import { randomBytes } from 'node:crypto';
import { afterEach, expect, it } from 'vitest';
import { EcashPayer } from '../helpers/recipients/ecash-payer.ts';
import { requestUsername } from '../helpers/recipients/username-requests.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

const PRICE_SAT = 16;
/** Longer than the service pauses after refusals. */
const PAUSE_MS = 4 * 60_000;

const clock = new TestClock();
const environment = useTestEnvironment({
  env: { USERNAME_PRICE_SAT: String(PRICE_SAT), TRUST_PROXY: '127.0.0.1' },
  overrides: { clock: clock.now, monotonicMs: clock.now },
});

afterEach(() => {
  environment.mint.switches.chaos = null;
  clock.advance(PAUSE_MS);
});

it('holds no name while the rate limit of the mint does not permit a swap', async () => {
  const { mint, database } = environment;
  const token = await (await EcashPayer.open(mint)).mintToken(PRICE_SAT);
  const wallet = environment.newWallet();
  const listPurchases = () =>
    database.db.selectFrom('username_purchases').select(['state', 'reason']).execute();
  mint.switches.chaos = { rates: {}, ratesByRoute: { 'POST /v1/swap': { rateLimit: 1 } } };
  expect((await requestUsername(wallet, 'wanted', token)).status).toBe(500);
  const failed = { state: 'failed', reason: 'mint_unusable' };
  expect(await listPurchases()).toEqual([failed]);
  const swaps = mint.requestCounts['POST /v1/swap'];

  const refused = await requestUsername(wallet, 'wanted', token);
  expect(refused.status).toBe(500);
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  expect(await listPurchases()).toEqual([failed]);
  expect(mint.requestCounts['POST /v1/swap']).toBe(swaps);

  mint.switches.chaos = null;
  clock.advance(PAUSE_MS);
  expect((await requestUsername(wallet, 'wanted', token)).status).toBe(201);
});

it('leaves swaps for a buyer, and the name, while another address sends forged tokens', async () => {
  const { mint } = environment;
  const payer = await EcashPayer.open(mint);
  const proofs = await payer.mintProofs(PRICE_SAT);
  const buy = (token: string) => requestFrom('198.51.100.2', token);
  const attack = () =>
    requestFrom(
      '192.0.2.1',
      payer.encodeToken(
        proofs.map((proof) => ({ ...proof, secret: randomBytes(32).toString('hex') })),
      ),
    );
  mint.switches.chaos = { rates: {}, ratesByRoute: { 'POST /v1/swap': { bareRateLimit: 1 } } };
  // Longer than the pauses after the first refusals. The third shows that the mint limits swaps.
  for (let refusals = 0; refusals < 3; refusals += 1) {
    expect((await buy(await payer.mintToken(PRICE_SAT))).status).toBe(500);
    clock.advance(10_000);
  }
  mint.switches.chaos = null;
  clock.advance(PAUSE_MS);

  let attacks = 0;
  let attackStatus = 402;
  while (attackStatus === 402 && attacks < 50) {
    attackStatus = (await attack()).status;
    attacks += 1;
  }
  expect(attackStatus).toBe(500);
  expect((await buy(payer.encodeToken(proofs))).status).toBe(201);
});

function requestFrom(address: string, token: string) {
  return requestUsername(environment.newWallet(), 'contested', token, { address });
}
