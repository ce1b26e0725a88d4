import { decodePaymentRequest, getEncodedToken, type Token } from '@cashu/cashu-ts';
import { nip19 } from 'nostr-tools';
import { beforeAll, describe, expect, it } from 'vitest';
import { EcashPayer } from '../helpers/recipients/ecash-payer.ts';
import {
  type ApiResponse,
  RecipientClient,
  requestJson,
} from '../helpers/recipients/recipient-client.ts';
import { fetchUsernameOwner, requestUsername } from '../helpers/recipients/username-requests.ts';
import { useAdditionalService, useTestEnvironment } from '../helpers/service/test-environment.ts';

const PRICE_SAT = 21;
const MAX_PAID_SAT = 23;
const SECOND_MS = 1_000;
const DAY_MS = 24 * 60 * 60_000;
let nowMs = Date.now();

const environment = useTestEnvironment({
  env: { USERNAME_PRICE_SAT: String(PRICE_SAT), USERNAME_RESERVED: 'Satoshi, hal9000' },
  overrides: { clock: () => nowMs },
});
let payer: EcashPayer;

beforeAll(async () => {
  payer = await EcashPayer.open(environment.mint);
});

describe('GET /api/v2/info', () => {
  it('returns the price and the mint without authentication', async () => {
    const { body } = await requestJson(environment.origin, '/api/v2/info');
    expect(body.data.features.username).toEqual({
      enabled: true,
      payment: { amount: PRICE_SAT, unit: 'sat', mints: [environment.mint.url] },
    });
  });
});

describe('a request without payment', () => {
  it('returns 402 with a payment request and reserves nothing', async () => {
    const wallet = environment.newWallet();
    const first = await requestUsername(wallet, 'wanted');
    const message = expect.stringContaining('21 sat');
    expect(first).toMatchObject({ status: 402, body: { code: 'payment_required', message } });
    const header = first.headers.get('x-cashu') ?? '';
    expect(header).toMatch(/^creqA/);
    const paymentRequest = decodePaymentRequest(header);
    expect(paymentRequest.amount?.toNumber()).toBe(PRICE_SAT);
    expect(paymentRequest).toMatchObject({
      unit: 'sat',
      mints: [environment.mint.url],
      transport: undefined,
    });

    const second = await requestUsername(environment.newWallet(), 'wanted');
    const secondRequest = decodePaymentRequest(second.headers.get('x-cashu') ?? '');
    expect(secondRequest.id).not.toBe(paymentRequest.id);
  });

  it('returns 400 for an invalid or reserved name', async () => {
    const wallet = environment.newWallet();
    // names.test.ts has more names.
    for (const name of [nip19.nsecEncode(wallet.secretKey), 'alice\n', '\u212a\u212a\u212a', '']) {
      expect(await requestUsername(wallet, name)).toMatchObject({
        status: 400,
        body: {
          error: true,
          code: 'name_invalid',
          message: expect.stringContaining('3 to 64 letters and digits'),
        },
      });
    }
    for (const name of ['admin', 'Hal9000', 'NPUBl8q7x', environment.newWallet().pubkey]) {
      expect(await requestUsername(wallet, name)).toMatchObject({
        status: 400,
        body: { error: true, code: 'name_reserved', message: 'This username is reserved.' },
      });
    }
  });
});

// test/unit/usernames/cashu-token.test.ts has invalid tokens, and test/mints/nutshell-usernames.test.ts those that only a
// mint can judge.
describe('a valid token', () => {
  it('buys the lower-case name, which all endpoints then resolve', async () => {
    const wallet = environment.newWallet();
    const token = await payer.mintToken(PRICE_SAT);
    const { status, body, headers } = await requestUsername(wallet, 'Alice7', token);
    expect(status).toBe(201);
    expect(headers.get('x-cashu')).toBeNull();
    const user = {
      pubkey: wallet.pubkey,
      name: 'alice7',
      mintUrl: environment.mint.url,
      lockQuote: false,
    };
    expect(body).toEqual({ error: false, data: { user } });
    expect((await wallet.get('/api/v2/user/info')).body.data.user).toEqual(user);
    expect(await fetchUsernameOwner(environment.origin, 'alice7')).toBe(wallet.pubkey);
    const discovery = await requestJson(environment.origin, '/.well-known/lnurlp/alice7');
    expect(discovery.body.tag).toBe('payRequest');
    expect(await payer.fetchTokenState(token)).toBe('SPENT');
  });

  it('may exceed the price a little and have any token format and base64 variant', async () => {
    const encoders: ((token: Token) => string)[] = [
      (token) => getEncodedToken(token).replace(/=+$/, ''),
      (token) => `cashu:${getEncodedToken(token)}`,
      encodeV3Token,
      (token) => encodeV3Token(token).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, ''),
      (token) => getEncodedToken(token, { removeDleq: true }),
    ];
    for (const [index, encode] of encoders.entries()) {
      const proofs = await payer.mintProofs(PRICE_SAT + (index % (MAX_PAID_SAT - PRICE_SAT + 1)));
      const token = encode({ mint: `${environment.mint.url}/`, unit: 'sat', proofs });
      const { status, body } = await requestUsername(
        environment.newWallet(),
        `form${index}`,
        token,
      );
      expect({ index, status, body }).toMatchObject({ index, status: 201 });
    }
  });

  it('is not spent if the buyer already has the name', async () => {
    const wallet = await createOwner('mine');
    const token = await payer.mintToken(PRICE_SAT);
    expect((await requestUsername(wallet, 'mine', token)).status).toBe(201);
    expect(await payer.fetchTokenState(token)).toBe('UNSPENT');
  });

  it('cannot pay for a second purchase', async () => {
    const wallet = environment.newWallet();
    const token = await payer.mintToken(PRICE_SAT);
    expect((await requestUsername(wallet, 'onlyone', token)).status).toBe(201);
    await expect402(await requestUsername(wallet, 'another', token), 'another purchase');
    await expect402(
      await requestUsername(environment.newWallet(), 'another', token),
      'another purchase',
    );
    expect(await fetchUsernameOwner(environment.origin, 'another')).toBeUndefined();
  });

  it('is not spent if the name belongs to another key', async () => {
    await createOwner('theirs');
    const token = await payer.mintToken(PRICE_SAT);
    const { status, body, headers } = await requestUsername(
      environment.newWallet(),
      'Theirs',
      token,
    );
    const message = 'This username is already taken.';
    expect({ status, body }).toEqual({
      status: 409,
      body: { error: true, code: 'name_taken', message },
    });
    expect(headers.get('x-cashu')).toBeNull();
    expect(await payer.fetchTokenState(token)).toBe('UNSPENT');
  });
});

describe('a second name for a key', () => {
  it('replaces the first name, which stops resolving and stays reserved for 30 days', async () => {
    const wallet = await createOwner('oldname');
    expect((await buyUsername(wallet, 'newname')).status).toBe(201);
    expect(await fetchUsernameOwner(environment.origin, 'newname')).toBe(wallet.pubkey);
    expect(await fetchUsernameOwner(environment.origin, 'oldname')).toBeUndefined();
    const discovery = await requestJson(environment.origin, '/.well-known/lnurlp/oldname');
    expect(discovery.body).toEqual({ status: 'ERROR', reason: 'Recipient unavailable.' });
    expect((await requestUsername(environment.newWallet(), 'oldname')).status).toBe(409);

    nowMs += 30 * DAY_MS - SECOND_MS;
    expect((await requestUsername(environment.newWallet(), 'oldname')).status).toBe(409);
    nowMs += 2 * SECOND_MS;
    const newOwner = environment.newWallet();
    expect((await buyUsername(newOwner, 'oldname')).status).toBe(201);
    expect(await fetchUsernameOwner(environment.origin, 'oldname')).toBe(newOwner.pubkey);
    expect((await requestUsername(wallet, 'oldname')).status).toBe(409);
  });

  it('can be replaced by the first name within 30 days, free of charge', async () => {
    const wallet = await createOwner('before');
    expect((await buyUsername(wallet, 'after')).status).toBe(201);
    nowMs += 29 * DAY_MS;
    const { status, body } = await requestUsername(wallet, 'before');
    expect(status).toBe(201);
    expect(body.data.user.name).toBe('before');
    expect(await fetchUsernameOwner(environment.origin, 'before')).toBe(wallet.pubkey);
    expect(await fetchUsernameOwner(environment.origin, 'after')).toBeUndefined();
    expect((await requestUsername(environment.newWallet(), 'after')).status).toBe(409);
  });
});

describe('a username price of 0', () => {
  it('assigns the name at the first request', async () => {
    const { publicOrigin: origin } = await useAdditionalService(environment, {
      USERNAME_PRICE_SAT: '0',
    });
    const wallet = new RecipientClient(origin);
    const { body } = await requestJson(origin, '/api/v2/info');
    expect(body.data.features.username.payment.amount).toBe(0);
    const response = await requestUsername(wallet, 'Gratis');
    expect(response.status).toBe(201);
    expect(response.body.data.user.name).toBe('gratis');
    expect((await requestUsername(new RecipientClient(origin), 'gratis')).status).toBe(409);
  });
});

async function buyUsername(wallet: RecipientClient, name: string): Promise<ApiResponse> {
  return requestUsername(wallet, name, await payer.mintToken(PRICE_SAT));
}

async function createOwner(name: string): Promise<RecipientClient> {
  const wallet = environment.newWallet();
  const { status, body } = await buyUsername(wallet, name);
  expect({ status, body }).toMatchObject({ status: 201 });
  return wallet;
}

async function expect402(response: ApiResponse, message: string | RegExp): Promise<void> {
  expect(response.status).toBe(402);
  expect(response.headers.get('x-cashu')).toMatch(/^creqA/);
  expect(response.body.error).toBe(true);
  expect(response.body.message).toMatch(message);
}

/** Encodes a version 3 token: JSON in base64 (NUT-00). */
function encodeV3Token({ mint, proofs }: Token): string {
  const encodedProofs = proofs.map((proof) => ({ ...proof, amount: proof.amount.toNumber() }));
  const json = JSON.stringify({ token: [{ mint, proofs: encodedProofs }], unit: 'sat' });
  return `cashuA${Buffer.from(json).toString('base64')}`;
}
