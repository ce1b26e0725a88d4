import { afterEach, beforeAll, expect, it, vi } from 'vitest';
import { decodeToken } from '../../src/usernames/ecash/cashu-token.ts';
import { EcashPayer } from '../helpers/recipients/ecash-payer.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { requestUsername } from '../helpers/recipients/username-requests.ts';
import { useAdditionalService, useTestEnvironment } from '../helpers/service/test-environment.ts';

/** Decoding a token and hashing its proofs takes long, so tokens that cannot buy anything are left alone. */

// Test files share modules, so the service has already loaded the one that is replaced here.
vi.hoisted(() => vi.resetModules());
vi.mock('../../src/usernames/ecash/cashu-token.ts', { spy: true });

const PRICE_SAT = 16;
const FOR_SALE = { USERNAME_PRICE_SAT: String(PRICE_SAT), USERNAME_RESERVED: 'hal9000' };
const NOT_FOR_SALE = { USERNAME_PRICE_SAT: '' };
const FREE_OF_CHARGE = { USERNAME_PRICE_SAT: '0' };

const environment = useTestEnvironment({ env: FOR_SALE });
let owner: RecipientClient;
let ownerToken: string;
let unusedToken: string;

beforeAll(async () => {
  const payer = await EcashPayer.open(environment.mint);
  [ownerToken, unusedToken] = [await payer.mintToken(PRICE_SAT), await payer.mintToken(PRICE_SAT)];
  owner = environment.newWallet();
  expect((await requestUsername(owner, 'owned', ownerToken)).status).toBe(201);
  expect(decodeToken).toHaveBeenCalled();
});

afterEach(() => {
  vi.mocked(decodeToken).mockClear();
});

it.each([
  { name: 'owned', status: 409 },
  { name: 'hal9000', status: 400 },
  { name: 'admin', status: 400 },
  { name: 'no', status: 400 },
])('does not decode a token for the name $name', async ({ name, status }) => {
  expect((await requestUsername(environment.newWallet(), name, unusedToken)).status).toBe(status);
  expect(decodeToken).not.toHaveBeenCalled();
});

it('does not decode a token for a name that the key owns', async () => {
  for (const token of [ownerToken, unusedToken]) {
    expect((await requestUsername(owner, 'owned', token)).status).toBe(201);
  }
  expect(decodeToken).not.toHaveBeenCalled();
});

it('does not decode a token if names are not for sale', async () => {
  const { publicOrigin } = await useAdditionalService(environment, NOT_FOR_SALE);
  const { status } = await requestUsername(
    new RecipientClient(publicOrigin),
    'wanted',
    unusedToken,
  );
  expect(status).toBe(400);
  expect((await requestUsername(owner.withOrigin(publicOrigin), 'owned', ownerToken)).status).toBe(
    201,
  );
  expect(decodeToken).not.toHaveBeenCalled();
});

it('does not decode a token if names are free of charge', async () => {
  const { publicOrigin } = await useAdditionalService(environment, FREE_OF_CHARGE);
  const wallet = new RecipientClient(publicOrigin);
  // The third request reclaims the first name.
  for (const name of ['first', 'second', 'first']) {
    expect((await requestUsername(wallet, name, unusedToken)).status).toBe(201);
  }
  expect(decodeToken).not.toHaveBeenCalled();
});

it('does not decode a token of an unauthenticated client, or beyond the rate limit', async () => {
  const { publicOrigin } = await useAdditionalService(environment, {
    ...FOR_SALE,
    LIMIT_PURCHASES: '1',
  });
  const path = '/api/v2/user/username';
  const headers = { 'content-type': 'application/json', 'x-cashu': unusedToken };
  const body = JSON.stringify({ username: 'wanted' });
  const unauthenticated = await requestJson(publicOrigin, path, { method: 'POST', headers, body });
  expect(unauthenticated.status).toBe(401);
  const { status } = await requestUsername(
    new RecipientClient(publicOrigin),
    'wanted',
    unusedToken,
  );
  expect(status).toBe(429);
  expect(decodeToken).not.toHaveBeenCalled();
});
