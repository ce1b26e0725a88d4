import { expect, it } from 'vitest';
import { EcashPayer } from '../helpers/recipients/ecash-payer.ts';
import { requestUsername } from '../helpers/recipients/username-requests.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

/** A username purchase at a mint that limits swaps. */

const PRICE_SAT = 16;
const COOLDOWN_MS = 2 * 60_000;

const clock = new TestClock();
const environment = useTestEnvironment({
  env: { USERNAME_PRICE_SAT: String(PRICE_SAT) },
  overrides: { clock: clock.now, monotonicMs: clock.now },
});

it('holds no name while the rate limit of the mint does not permit a swap', async () => {
  const { mint, database } = environment;
  const token = await (await EcashPayer.open(mint)).mintToken(PRICE_SAT);
  const wallet = environment.newWallet();
  const listPurchases = () =>
    database.db.selectFrom('username_purchases').select(['state', 'reason']).execute();
  mint.switches.chaos = { rates: {}, ratesByRoute: { 'POST /v1/swap': { rateLimit: 1 } } };
  expect((await requestUsername(wallet, 'wanted', token)).status).toBe(500);
  const failed = { state: 'failed', reason: 'mint_unreachable' };
  expect(await listPurchases()).toEqual([failed]);
  const swaps = mint.requestCounts['POST /v1/swap'];

  const refused = await requestUsername(wallet, 'wanted', token);
  expect(refused.status).toBe(500);
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  expect(await listPurchases()).toEqual([failed]);
  expect(mint.requestCounts['POST /v1/swap']).toBe(swaps);

  mint.switches.chaos = null;
  clock.advance(COOLDOWN_MS);
  expect((await requestUsername(wallet, 'wanted', token)).status).toBe(201);
});
