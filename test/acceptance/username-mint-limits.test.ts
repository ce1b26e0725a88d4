import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { saveRateLimit } from '../../src/mints/mint-store.ts';
import { EcashPayer } from '../helpers/recipients/ecash-payer.ts';
import {
  type ApiResponse,
  type RecipientClient,
  requestJson,
} from '../helpers/recipients/recipient-client.ts';
import { useAdditionalService, useTestEnvironment } from '../helpers/service/test-environment.ts';

/** Username purchases at a mint that limits swaps. */

const USERNAME_PATH = '/api/v2/user/username';
const PRICE_SAT = 16;
const SWAPS_PER_MINUTE = 20;
const ATTACKER = '192.0.2.1';
const BUYER = '198.51.100.2';

const environment = useTestEnvironment();

it('leaves swaps for a buyer, and the name, while another address sends forged tokens', async () => {
  const { mint, database } = environment;
  // Stores the mint.
  await environment.requestInvoice(environment.newWallet(), 1);
  const limit = { count: SWAPS_PER_MINUTE, isElastic: false };
  await saveRateLimit(database.db, mint.url, 'swap', limit);
  const { publicOrigin } = await useAdditionalService(
    environment,
    { USERNAME_PRICE_SAT: String(PRICE_SAT), TRUST_PROXY: '127.0.0.1' },
    { mintLimiterTiming: { payerMaxWaitMs: 50 } },
  );
  const payer = await EcashPayer.open(mint);
  const proofs = await payer.mintProofs(PRICE_SAT);
  const newClient = () => environment.newWallet().withOrigin(publicOrigin);

  const attacks: ApiResponse[] = [];
  for (let i = 0; i < SWAPS_PER_MINUTE; i += 1) {
    const forged = proofs.map(({ dleq: _, ...proof }) => ({
      ...proof,
      secret: randomBytes(32).toString('hex'),
    }));
    attacks.push(await requestFrom(ATTACKER, newClient(), payer.encodeToken(forged)));
  }
  const refused = attacks.filter(({ status }) => status === 500);
  expect(refused.length).toBeGreaterThan(0);
  expect(Number(refused[0]?.headers.get('retry-after'))).toBeGreaterThan(0);
  // A refused request has held no name.
  const purchases = await database.db.selectFrom('username_purchases').select('reason').execute();
  expect(purchases).toEqual(Array(attacks.length - refused.length).fill({ reason: 'invalid' }));

  const { status } = await requestFrom(BUYER, newClient(), payer.encodeToken(proofs));
  expect(status).toBe(201);
});

function requestFrom(
  address: string,
  wallet: RecipientClient,
  token: string,
): Promise<ApiResponse> {
  return requestJson(wallet.origin, USERNAME_PATH, {
    method: 'POST',
    headers: {
      authorization: wallet.signRequest(USERNAME_PATH, 'POST'),
      'content-type': 'application/json',
      'x-cashu': token,
      'x-forwarded-for': address,
    },
    body: JSON.stringify({ username: 'wanted' }),
  });
}
