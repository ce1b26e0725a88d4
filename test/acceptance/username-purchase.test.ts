import { decodePaymentRequest, getEncodedToken, type Token, Wallet } from '@cashu/cashu-ts';
import { nip19 } from 'nostr-tools';
import { beforeAll, describe, expect, it } from 'vitest';
import { EcashPayer } from '../helpers/ecash-payer.ts';
import { startMint } from '../helpers/start-test-mint.ts';
import { useAdditionalService, useTestEnvironment } from '../helpers/test-environment.ts';
import { type ApiResponse, requestJson, TestWallet } from '../helpers/test-wallet.ts';
import { buyUsername, fetchUsernameOwner } from '../helpers/username-buyer.ts';

/** Buying a username (spec.md section 4.6). */

const PRICE_SAT = 21;
const DAY_MS = 24 * 60 * 60_000;

const world = useTestEnvironment({
  env: { USERNAME_PRICE_SAT: String(PRICE_SAT), USERNAME_RESERVED: 'Satoshi, hal9000' },
  overrides: { clock: () => nowMs },
});
let payer: EcashPayer;
let nowMs = Date.now();

beforeAll(async () => {
  payer = await EcashPayer.open(world.mint);
});

describe('GET /api/v2/info', () => {
  it('returns the price and the mint without authentication', async () => {
    const { body } = await requestJson(world.origin, '/api/v2/info');
    expect(body.data.features.username).toEqual({
      enabled: true,
      payment: { amount: PRICE_SAT, unit: 'sat', mints: [world.mint.url] },
    });
  });
});

describe('a request without payment', () => {
  it('returns 402 with a payment request and reserves nothing', async () => {
    const wallet = world.newWallet();
    const first = await buyUsername(wallet, 'wanted');
    expect(first.status).toBe(402);
    expect(first.body).toEqual({ error: true, message: expect.stringContaining('21 sat') });
    const header = first.headers.get('x-cashu') ?? '';
    expect(header).toMatch(/^creqA/);
    const paymentRequest = decodePaymentRequest(header);
    expect(paymentRequest.amount?.toNumber()).toBe(PRICE_SAT);
    expect(paymentRequest).toMatchObject({
      unit: 'sat',
      mints: [world.mint.url],
      transport: undefined,
    });

    const second = await buyUsername(world.newWallet(), 'wanted');
    expect(second.status).toBe(402);
    expect(decodePaymentRequest(second.headers.get('x-cashu') ?? '').id).not.toBe(
      paymentRequest.id,
    );
  });

  it('returns 400 for an invalid or reserved name', async () => {
    const wallet = world.newWallet();
    const secretKey = nip19.nsecEncode(wallet.secretKey);
    for (const name of [
      secretKey,
      'ab',
      'a'.repeat(65),
      'npub1abc',
      'NPUB1abc',
      'al ice',
      'al-ice',
      'al.ice',
      'alice\n',
      'ålice',
      'ａlice',
      '\u212a\u212a\u212a',
      '',
    ]) {
      const { status, body } = await buyUsername(wallet, name);
      expect({ name, status, body }).toEqual({
        name,
        status: 400,
        body: { error: true, message: expect.stringContaining('3 to 64 letters and digits') },
      });
    }
    for (const name of ['admin', 'Support', 'ROOT', 'postmaster', 'wallet', 'satoshi', 'Hal9000']) {
      const { status, body } = await buyUsername(wallet, name);
      expect({ name, status, body }).toEqual({
        name,
        status: 400,
        body: { error: true, message: 'This username is reserved.' },
      });
    }
  });
});

describe('a wallet that pays in-band', () => {
  it('buys a name with the payment request of the 402 response', async () => {
    const wallet = world.newWallet();
    const first = await buyUsername(wallet, 'inband');
    const paymentRequest = decodePaymentRequest(first.headers.get('x-cashu') ?? '');
    const [mintUrl] = paymentRequest.mints ?? [];
    const cashu = new Wallet(mintUrl ?? '', { unit: paymentRequest.unit ?? '' });
    await cashu.loadMint();
    const { send } = await cashu.ops
      .send(paymentRequest.amount ?? 0, await payer.mintProofs(64))
      .run();
    const token = getEncodedToken({
      mint: mintUrl ?? '',
      unit: paymentRequest.unit ?? '',
      proofs: send,
    });
    const second = await buyUsername(wallet, 'inband', token);
    expect(second.status).toBe(201);
    expect(second.body.data.user.name).toBe('inband');
  });
});

describe('a valid token', () => {
  it('buys the lower-case name, which all endpoints then resolve', async () => {
    const wallet = world.newWallet();
    const token = await payer.mintToken(PRICE_SAT);
    const { status, body, headers } = await buyUsername(wallet, 'Alice7', token);
    expect(status).toBe(201);
    expect(headers.get('x-cashu')).toBeNull();
    const user = {
      pubkey: wallet.pubkey,
      name: 'alice7',
      mintUrl: world.mint.url,
      lockQuote: false,
    };
    expect(body).toEqual({ error: false, data: { user } });
    expect((await wallet.get('/api/v2/user/info')).body.data.user).toEqual(user);
    expect(await fetchUsernameOwner(world.origin, 'alice7')).toBe(wallet.pubkey);
    const discovery = await requestJson(world.origin, '/.well-known/lnurlp/alice7');
    expect(discovery.body.tag).toBe('payRequest');
    expect(await payer.fetchTokenState(token)).toBe('SPENT');
  });

  it('may exceed the price and have any token format and base64 variant', async () => {
    const encoders: ((token: Token) => string)[] = [
      (token) => getEncodedToken(token).replace(/=+$/, ''),
      (token) => `cashu:${getEncodedToken(token)}`,
      encodeV3Token,
      (token) => encodeV3Token(token).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, ''),
      (token) => getEncodedToken(token, { removeDleq: true }),
    ];
    for (const [index, encode] of encoders.entries()) {
      const proofs = await payer.mintProofs(PRICE_SAT + index);
      const token = encode({ mint: `${world.mint.url}/`, unit: 'sat', proofs });
      const { status, body } = await buyUsername(world.newWallet(), `form${index}`, token);
      expect({ index, status, body }).toMatchObject({ index, status: 201 });
    }
  });

  it('is idempotent for the same key and name and is spent once', async () => {
    const wallet = world.newWallet();
    const token = await payer.mintToken(PRICE_SAT);
    const responses = await Promise.all([1, 2, 3].map(() => buyUsername(wallet, 'again', token)));
    responses.push(await buyUsername(wallet, 'again', token), await buyUsername(wallet, 'AGAIN'));
    expect(responses.map(({ status }) => status)).toEqual([201, 201, 201, 201, 201]);
    expect(new Set(responses.map(({ body }) => JSON.stringify(body))).size).toBe(1);
  });

  it('is not spent if the key already has the name', async () => {
    const wallet = await createOwner('mine');
    const token = await payer.mintToken(PRICE_SAT);
    expect((await buyUsername(wallet, 'mine', token)).status).toBe(201);
    expect(await payer.fetchTokenState(token)).toBe('UNSPENT');
  });

  it('cannot pay for a second purchase', async () => {
    const wallet = world.newWallet();
    const token = await payer.mintToken(PRICE_SAT);
    expect((await buyUsername(wallet, 'onlyone', token)).status).toBe(201);
    await expectRejected(await buyUsername(wallet, 'another', token), 'another purchase');
    await expectRejected(
      await buyUsername(world.newWallet(), 'another', token),
      'another purchase',
    );
    expect(await fetchUsernameOwner(world.origin, 'another')).toBeUndefined();
  });

  it('is not spent if the name belongs to another key', async () => {
    await createOwner('theirs');
    const token = await payer.mintToken(PRICE_SAT);
    const { status, body, headers } = await buyUsername(world.newWallet(), 'Theirs', token);
    expect(status).toBe(409);
    expect(body).toEqual({ error: true, message: 'This username is already taken.' });
    expect(headers.get('x-cashu')).toBeNull();
    expect(await payer.fetchTokenState(token)).toBe('UNSPENT');
  });

  it('may exceed Node’s default header limit of 16 KiB', async () => {
    const proofs = await payer.mintProofs(PRICE_SAT);
    const memo = 'm'.repeat(16 * 1024);
    const token = getEncodedToken({ mint: world.mint.url, unit: 'sat', proofs, memo });
    expect(token.length).toBeGreaterThan(16 * 1024);
    expect((await buyUsername(world.newWallet(), 'bigspender', token)).status).toBe(201);
  });
});

describe('an invalid token', () => {
  it.each<[string, () => Promise<string>, RegExp]>([
    ['is not a Cashu token', async () => 'hello', /not a Cashu token/i],
    [
      'is truncated',
      async () => (await payer.mintToken(PRICE_SAT)).slice(0, -40),
      /damaged or incomplete/,
    ],
    ['is worth too little', () => payer.mintToken(PRICE_SAT - 1), /worth 20 sat.*costs 21 sat/],
    [
      'is of another unit',
      async () => encodeInOtherUnit(await payer.mintProofs(PRICE_SAT)),
      /not in sat/,
    ],
    ['is of another mint', () => mintTokenOfOtherMint(), /from another mint/],
    ['is spent', () => mintSpentToken(), /spent/],
    ['is locked to another key', () => mintLockedToken(), /locked/],
    ['has an invalid DLEQ proof', () => mintForgedToken(), /signed by this mint/],
  ])(
    'that %s gets the payment request again, and the name stays free',
    async (_case, makeToken, message) => {
      const token = await makeToken();
      await expectRejected(await buyUsername(world.newWallet(), 'notpaid', token), message);
      expect(await fetchUsernameOwner(world.origin, 'notpaid')).toBeUndefined();
    },
  );

  async function mintSpentToken(): Promise<string> {
    const proofs = await payer.mintProofs(PRICE_SAT);
    await payer.wallet.receive(proofs);
    return payer.encodeToken(proofs);
  }

  async function mintLockedToken(): Promise<string> {
    const { send } = await payer.wallet.ops
      .send(PRICE_SAT, await payer.mintProofs(PRICE_SAT))
      .asP2PK({ pubkey: `02${world.newWallet().pubkey}` })
      .run();
    return payer.encodeToken(send);
  }

  async function mintForgedToken(): Promise<string> {
    const proofs = await payer.mintProofs(PRICE_SAT);
    const [first] = proofs;
    return payer.encodeToken(
      proofs.map((proof) => ({ ...proof, dleq: first?.dleq })) as typeof proofs,
    );
  }
});

describe('a second name for a key', () => {
  it('replaces the first, which stops resolving and stays reserved for thirty days', async () => {
    const wallet = await createOwner('oldname');
    expect((await buyUsername(wallet, 'newname', await payer.mintToken(PRICE_SAT))).status).toBe(
      201,
    );
    expect(await fetchUsernameOwner(world.origin, 'newname')).toBe(wallet.pubkey);
    expect(await fetchUsernameOwner(world.origin, 'oldname')).toBeUndefined();
    const discovery = await requestJson(world.origin, '/.well-known/lnurlp/oldname');
    expect(discovery.body).toEqual({ status: 'ERROR', reason: 'Recipient unavailable.' });
    expect((await buyUsername(world.newWallet(), 'oldname')).status).toBe(409);

    nowMs += 30 * DAY_MS - 1_000;
    expect((await buyUsername(world.newWallet(), 'oldname')).status).toBe(409);
    nowMs += 2_000;
    const next = world.newWallet();
    expect((await buyUsername(next, 'oldname', await payer.mintToken(PRICE_SAT))).status).toBe(201);
    expect(await fetchUsernameOwner(world.origin, 'oldname')).toBe(next.pubkey);
    expect((await buyUsername(wallet, 'oldname')).status).toBe(409);
  });

  it('can be undone by reclaiming the first, free of charge, within that time', async () => {
    const wallet = await createOwner('before');
    expect((await buyUsername(wallet, 'after', await payer.mintToken(PRICE_SAT))).status).toBe(201);
    nowMs += 29 * DAY_MS;
    const { status, body } = await buyUsername(wallet, 'before');
    expect(status).toBe(201);
    expect(body.data.user.name).toBe('before');
    expect(await fetchUsernameOwner(world.origin, 'before')).toBe(wallet.pubkey);
    expect(await fetchUsernameOwner(world.origin, 'after')).toBeUndefined();
    expect((await buyUsername(world.newWallet(), 'after')).status).toBe(409);
  });
});

describe('a username price of 0', () => {
  it('assigns the name at the first request', async () => {
    const { publicOrigin: base } = await useAdditionalService(world, { USERNAME_PRICE_SAT: '0' });
    const wallet = new TestWallet(base);
    const { body } = await requestJson(base, '/api/v2/info');
    expect(body.data.features.username.payment.amount).toBe(0);
    const response = await buyUsername(wallet, 'Gratis');
    expect(response.status).toBe(201);
    expect(response.body.data.user.name).toBe('gratis');
    expect((await buyUsername(new TestWallet(base), 'gratis')).status).toBe(409);
  });
});

async function createOwner(name: string): Promise<TestWallet> {
  const wallet = world.newWallet();
  const { status, body } = await buyUsername(wallet, name, await payer.mintToken(PRICE_SAT));
  expect({ status, body }).toMatchObject({ status: 201 });
  return wallet;
}

async function expectRejected(response: ApiResponse, message: string | RegExp): Promise<void> {
  expect(response.status).toBe(402);
  expect(response.headers.get('x-cashu')).toMatch(/^creqA/);
  expect(response.body.error).toBe(true);
  expect(response.body.message).toMatch(message);
}

/** Encodes a version 3 token: JSON in base64 (NUT-00). */
function encodeV3Token({ mint, proofs }: Token): string {
  const plain = proofs.map(({ id, amount, secret, C }) => ({
    id,
    amount: amount.toNumber(),
    secret,
    C,
  }));
  const json = JSON.stringify({ token: [{ mint, proofs: plain }], unit: 'sat' });
  return `cashuA${Buffer.from(json).toString('base64')}`;
}

function encodeInOtherUnit(proofs: Token['proofs']): string {
  return getEncodedToken({ mint: world.mint.url, unit: 'usd', proofs });
}

async function mintTokenOfOtherMint(): Promise<string> {
  const mint = await startMint();
  return (await EcashPayer.open(mint)).mintToken(PRICE_SAT);
}
