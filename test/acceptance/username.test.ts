import { decodePaymentRequest, getEncodedToken, type Token, Wallet } from '@cashu/cashu-ts';
import { nip19 } from 'nostr-tools';
import { beforeAll, describe, expect, it } from 'vitest';
import { EcashPayer } from '../helpers/ecash-payer.ts';
import { startMint } from '../helpers/mints.ts';
import { buyUsername, ownerOf } from '../helpers/username-buyer.ts';
import { type ApiAnswer, request, TestWallet } from '../helpers/wallet.ts';
import { serveBeside, useWorld } from '../helpers/world.ts';

/** Buying a username (spec.md section 4.6). */

const PRICE_SAT = 21;
const DAY_MS = 24 * 60 * 60_000;

const world = useWorld({
  env: { USERNAME_PRICE_SAT: String(PRICE_SAT), USERNAME_RESERVED: 'Satoshi, hal9000' },
  surroundings: { clock: () => nowMs },
});
let payer: EcashPayer;
let nowMs = Date.now();

beforeAll(async () => {
  payer = await EcashPayer.open(world.mint);
});

describe('the offer', () => {
  it('is told to anybody, with its price and mint', async () => {
    const { body } = await request(world.base, '/api/v2/info');
    expect(body.data.features.username).toEqual({
      enabled: true,
      payment: { amount: PRICE_SAT, unit: 'sat', mints: [world.mint.url] },
    });
  });
});

describe('a request without payment', () => {
  it('is answered with a payment request that today’s wallets take, and changes nothing', async () => {
    const wallet = world.newWallet();
    const first = await buyUsername(wallet, 'wanted');
    expect(first.status).toBe(402);
    expect(first.body).toEqual({ error: true, message: expect.stringContaining('21 sat') });
    const header = first.headers.get('x-cashu') ?? '';
    expect(header).toMatch(/^creqA/);
    const creq = decodePaymentRequest(header);
    expect(creq.amount?.toNumber()).toBe(PRICE_SAT);
    expect(creq).toMatchObject({ unit: 'sat', mints: [world.mint.url], transport: undefined });

    const second = await buyUsername(world.newWallet(), 'wanted');
    expect(second.status).toBe(402);
    expect(decodePaymentRequest(second.headers.get('x-cashu') ?? '').id).not.toBe(creq.id);
  });

  it('is told first that the name is none, or kept from everybody', async () => {
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

describe('a wallet in a web page', () => {
  it('pays what it decodes from the 402, in band', async () => {
    const wallet = world.newWallet();
    const first = await buyUsername(wallet, 'inband');
    const creq = decodePaymentRequest(first.headers.get('x-cashu') ?? '');
    const [mintUrl] = creq.mints ?? [];
    const cashu = new Wallet(mintUrl ?? '', { unit: creq.unit ?? '' });
    await cashu.loadMint();
    const { send } = await cashu.ops.send(creq.amount ?? 0, await payer.proofs(64)).run();
    const token = getEncodedToken({ mint: mintUrl ?? '', unit: creq.unit ?? '', proofs: send });
    const second = await buyUsername(wallet, 'inband', token);
    expect(second.status).toBe(201);
    expect(second.body.data.user.name).toBe('inband');
  });
});

describe('a token that pays', () => {
  it('buys the name, in lower case, which is found everywhere from then on', async () => {
    const wallet = world.newWallet();
    const token = await payer.token(PRICE_SAT);
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
    expect(await ownerOf(world.base, 'alice7')).toBe(wallet.pubkey);
    const discovery = await request(world.base, '/.well-known/lnurlp/alice7');
    expect(discovery.body.tag).toBe('payRequest');
    expect(await payer.stateOf(token)).toBe('SPENT');
  });

  it('may be worth more, have padding, be of the older format or in other letters', async () => {
    const forms: ((token: Token) => string)[] = [
      (token) => getEncodedToken(token).replace(/=+$/, ''),
      (token) => `cashu:${getEncodedToken(token)}`,
      oldToken,
      (token) => oldToken(token).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, ''),
      (token) => getEncodedToken(token, { removeDleq: true }),
    ];
    for (const [index, form] of forms.entries()) {
      const proofs = await payer.proofs(PRICE_SAT + index);
      const token = form({ mint: `${world.mint.url}/`, unit: 'sat', proofs });
      const { status, body } = await buyUsername(world.newWallet(), `form${index}`, token);
      expect({ index, status, body }).toMatchObject({ index, status: 201 });
    }
  });

  it('buys the same again for the same key and name, and is not spent twice', async () => {
    const wallet = world.newWallet();
    const token = await payer.token(PRICE_SAT);
    const answers = await Promise.all([1, 2, 3].map(() => buyUsername(wallet, 'again', token)));
    answers.push(await buyUsername(wallet, 'again', token), await buyUsername(wallet, 'AGAIN'));
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 201, 201, 201]);
    expect(new Set(answers.map(({ body }) => JSON.stringify(body))).size).toBe(1);
  });

  it('that is another one is not touched where the key has the name already', async () => {
    const wallet = await owner('mine');
    const token = await payer.token(PRICE_SAT);
    expect((await buyUsername(wallet, 'mine', token)).status).toBe(201);
    expect(await payer.stateOf(token)).toBe('UNSPENT');
  });

  it('buys nothing else', async () => {
    const wallet = world.newWallet();
    const token = await payer.token(PRICE_SAT);
    expect((await buyUsername(wallet, 'onlyone', token)).status).toBe(201);
    await expectRefused(await buyUsername(wallet, 'another', token), 'another purchase');
    await expectRefused(await buyUsername(world.newWallet(), 'another', token), 'another purchase');
    expect(await ownerOf(world.base, 'another')).toBeUndefined();
  });

  it('is still unspent where the name is somebody else’s', async () => {
    await owner('theirs');
    const token = await payer.token(PRICE_SAT);
    const { status, body, headers } = await buyUsername(world.newWallet(), 'Theirs', token);
    expect(status).toBe(409);
    expect(body).toEqual({ error: true, message: 'This username is already taken.' });
    expect(headers.get('x-cashu')).toBeNull();
    expect(await payer.stateOf(token)).toBe('UNSPENT');
  });

  it('fits into the header beyond the 16 KiB that Node allows by default', async () => {
    const proofs = await payer.proofs(PRICE_SAT);
    const memo = 'm'.repeat(16 * 1024);
    const token = getEncodedToken({ mint: world.mint.url, unit: 'sat', proofs, memo });
    expect(token.length).toBeGreaterThan(16 * 1024);
    expect((await buyUsername(world.newWallet(), 'bigspender', token)).status).toBe(201);
  });
});

describe('a token that does not pay', () => {
  it.each<[string, () => Promise<string>, RegExp]>([
    ['is none', async () => 'hello', /not a Cashu token/i],
    [
      'is cut short',
      async () => (await payer.token(PRICE_SAT)).slice(0, -40),
      /damaged or not complete/,
    ],
    ['is worth too little', () => payer.token(PRICE_SAT - 1), /worth 20 sat.*costs 21 sat/],
    ['is of another unit', async () => inOtherUnit(await payer.proofs(PRICE_SAT)), /not in sat/],
    ['is of another mint', () => elsewhere(), /of another mint/],
    ['is spent', () => spent(), /spent/],
    ['is locked to another key', () => locked(), /locked/],
    // NUT-12.
    ['has a false proof of its signature', () => forged(), /signed by this mint/],
  ])(
    'because it %s gets the request again, and the name stays free',
    async (_what, makeToken, message) => {
      const token = await makeToken();
      await expectRefused(await buyUsername(world.newWallet(), 'notpaid', token), message);
      expect(await ownerOf(world.base, 'notpaid')).toBeUndefined();
    },
  );

  async function spent(): Promise<string> {
    const proofs = await payer.proofs(PRICE_SAT);
    await payer.wallet.receive(proofs);
    return payer.encode(proofs);
  }

  async function locked(): Promise<string> {
    const { send } = await payer.wallet.ops
      .send(PRICE_SAT, await payer.proofs(PRICE_SAT))
      .asP2PK({ pubkey: `02${world.newWallet().pubkey}` })
      .run();
    return payer.encode(send);
  }

  async function forged(): Promise<string> {
    const proofs = await payer.proofs(PRICE_SAT);
    const [first] = proofs;
    return payer.encode(proofs.map((proof) => ({ ...proof, dleq: first?.dleq })) as typeof proofs);
  }
});

describe('one name a key', () => {
  it('replaces the old one, which resolves no more and is nobody else’s for thirty days', async () => {
    const wallet = await owner('oldname');
    expect((await buyUsername(wallet, 'newname', await payer.token(PRICE_SAT))).status).toBe(201);
    expect(await ownerOf(world.base, 'newname')).toBe(wallet.pubkey);
    expect(await ownerOf(world.base, 'oldname')).toBeUndefined();
    const discovery = await request(world.base, '/.well-known/lnurlp/oldname');
    expect(discovery.body).toEqual({ status: 'ERROR', reason: 'Recipient unavailable.' });
    expect((await buyUsername(world.newWallet(), 'oldname')).status).toBe(409);

    nowMs += 30 * DAY_MS - 1_000;
    expect((await buyUsername(world.newWallet(), 'oldname')).status).toBe(409);
    nowMs += 2_000;
    const next = world.newWallet();
    expect((await buyUsername(next, 'oldname', await payer.token(PRICE_SAT))).status).toBe(201);
    expect(await ownerOf(world.base, 'oldname')).toBe(next.pubkey);
    expect((await buyUsername(wallet, 'oldname')).status).toBe(409);
  });

  it('is taken back free of charge by its owner in that time', async () => {
    const wallet = await owner('before');
    expect((await buyUsername(wallet, 'after', await payer.token(PRICE_SAT))).status).toBe(201);
    nowMs += 29 * DAY_MS;
    const { status, body } = await buyUsername(wallet, 'before');
    expect(status).toBe(201);
    expect(body.data.user.name).toBe('before');
    expect(await ownerOf(world.base, 'before')).toBe(wallet.pubkey);
    expect(await ownerOf(world.base, 'after')).toBeUndefined();
    expect((await buyUsername(world.newWallet(), 'after')).status).toBe(409);
  });
});

describe('a name that costs nothing', () => {
  it('is given at the first request', async () => {
    const { publicOrigin: base } = await serveBeside(world, { USERNAME_PRICE_SAT: '0' });
    const wallet = new TestWallet(base);
    const { body } = await request(base, '/api/v2/info');
    expect(body.data.features.username.payment.amount).toBe(0);
    const answer = await buyUsername(wallet, 'Gratis');
    expect(answer.status).toBe(201);
    expect(answer.body.data.user.name).toBe('gratis');
    expect((await buyUsername(new TestWallet(base), 'gratis')).status).toBe(409);
  });
});

async function owner(name: string): Promise<TestWallet> {
  const wallet = world.newWallet();
  const { status, body } = await buyUsername(wallet, name, await payer.token(PRICE_SAT));
  expect({ status, body }).toMatchObject({ status: 201 });
  return wallet;
}

async function expectRefused(answer: ApiAnswer, message: string | RegExp): Promise<void> {
  expect(answer.status).toBe(402);
  expect(answer.headers.get('x-cashu')).toMatch(/^creqA/);
  expect(answer.body.error).toBe(true);
  expect(answer.body.message).toMatch(message);
}

/** The format before `cashuB`: JSON in base64 (NUT-00). */
function oldToken({ mint, proofs }: Token): string {
  const plain = proofs.map(({ id, amount, secret, C }) => ({
    id,
    amount: amount.toNumber(),
    secret,
    C,
  }));
  const json = JSON.stringify({ token: [{ mint, proofs: plain }], unit: 'sat' });
  return `cashuA${Buffer.from(json).toString('base64')}`;
}

function inOtherUnit(proofs: Token['proofs']): string {
  return getEncodedToken({ mint: world.mint.url, unit: 'usd', proofs });
}

async function elsewhere(): Promise<string> {
  const mint = await startMint();
  return (await EcashPayer.open(mint)).token(PRICE_SAT);
}
