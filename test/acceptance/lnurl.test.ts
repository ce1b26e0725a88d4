import { createHash } from 'node:crypto';
import { nip19 } from 'nostr-tools';
import { describe, expect, it } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { decodeInvoice } from '../../src/quotes/bolt11.ts';
import { assignUsername } from '../helpers/names.ts';
import {
  createUnpayableInvoice,
  type QuoteRequest,
  startScriptedMint,
} from '../helpers/scripted-mint.ts';
import {
  assignTestMint,
  setLockQuotes,
  setMint,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/test-environment.ts';
import { type ApiResponse, requestJson, type TestWallet } from '../helpers/test-wallet.ts';

/** `GET /.well-known/lnurlp/{user}` (spec.md section 4.8), by LUD-06 and LUD-16. */

const CREATE_QUOTE = 'POST /v1/mint/quote/bolt11';

const world = useTestEnvironment();

describe('discovery', () => {
  it('returns the LUD-06 parameters for an npub in any case', async () => {
    const { npub } = world.newWallet();
    const address = `${npub}@${new URL(world.origin).host}`;
    const { status, headers, body } = await requestPay(npub);
    expect(status).toBe(200);
    expect(headers.get('content-type')).toMatch(/^application\/json/);
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(body).toEqual({
      tag: 'payRequest',
      callback: `${world.origin}/.well-known/lnurlp/${npub}`,
      minSendable: 1_000,
      maxSendable: 1_000_000_000,
      metadata: expect.any(String),
      commentAllowed: 255,
    });
    expect(JSON.parse(body.metadata)).toEqual([
      ['text/plain', `Payment to ${address}`],
      ['text/identifier', address],
    ]);
    expect((await requestPay(npub.toUpperCase())).body).toEqual(body);
  });

  it('resolves a username in any case and pays its owner', async () => {
    const wallet = world.newWallet();
    await assignUsername(world.database, wallet.pubkey, 'alice');
    const { body } = await requestPay('Alice');
    const host = new URL(world.origin).host;
    expect(body.callback).toBe(`${world.origin}/.well-known/lnurlp/alice`);
    expect(JSON.parse(body.metadata)).toContainEqual(['text/identifier', `alice@${host}`]);

    const { pr } = (await requestPay('ALICE', 'amount=5000')).body;
    expect(await findStoredQuote(pr)).toMatchObject({ pubkey: wallet.pubkey, amount_sat: 5 });
  });
});

describe('the sendable amount', () => {
  it.each([
    ['the limits of the mint', { minAmountSat: 5, maxAmountSat: 500_000 }, [5_000, 500_000_000]],
    [
      'the operator if the mint has no limits',
      { minAmountSat: null, maxAmountSat: null },
      [1_000, 1_000_000_000],
    ],
    ['the operator if the mint allows more', { maxAmountSat: 9_000_000 }, [1_000, 1_000_000_000]],
  ])('is limited by %s', async (_case, switches, [minSendable, maxSendable]) => {
    const wallet = world.newWallet();
    await assignTestMint(wallet, switches);
    expect((await requestPay(wallet.npub)).body).toMatchObject({ minSendable, maxSendable });
  });

  it('is limited by the operator and rounded to whole sats', async () => {
    const service = await useAdditionalService(world, {
      MIN_SENDABLE_MSAT: '1500',
      MAX_SENDABLE_MSAT: '10500',
    });
    const { body } = await requestJson(
      service.url,
      `/.well-known/lnurlp/${world.newWallet().npub}`,
    );
    expect(body).toMatchObject({ minSendable: 2_000, maxSendable: 10_000 });
  });

  it('is unavailable if the limits of mint and operator do not overlap', async () => {
    const wallet = world.newWallet();
    await assignTestMint(wallet, { minAmountSat: 2_000_000 });
    expectUnavailable(await requestPay(wallet.npub));
  });

  it.each([
    ['negative', 'amount=-1000'],
    ['a fraction', 'amount=1000.5'],
    ['not whole sats', 'amount=1500'],
    ['below the minimum', 'amount=999'],
    ['above the maximum', 'amount=1000001000'],
    ['too large for a number', `amount=${'9'.repeat(400)}`],
    ['in another notation', 'amount=1e3'],
    ['empty', 'amount='],
    ['given twice', 'amount=1000&amount=2000'],
  ])('rejects an amount that is %s before the mint is called', async (_case, query) => {
    const before = world.mint.requestCounts[CREATE_QUOTE];
    const { status, body } = await requestPay(world.newWallet().npub, query);
    expect(status).toBe(200);
    expect(body).toEqual({ status: 'ERROR', reason: expect.stringMatching(/amount/i) });
    expect(world.mint.requestCounts[CREATE_QUOTE]).toBe(before);
  });
});

describe('an unknown or invalid recipient', () => {
  const invalid = 'Invalid recipient.';
  const unavailable = 'Recipient unavailable.';
  const someNpub = nip19.npubEncode(
    '79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798',
  );

  it.each([
    ['an npub with a wrong checksum', `${someNpub.slice(0, -1)}q`, invalid],
    ['a truncated npub', someNpub.slice(0, 20), invalid],
    // Not x coordinates of curve points; the last two are not below the field size.
    ...[
      '05'.padStart(64, '0'),
      '0'.repeat(64),
      'fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f',
      'f'.repeat(64),
    ].map((key) => [`the invalid key ${key}`, nip19.npubEncode(key), invalid]),
    ['the prefix of an npub', 'npub1', invalid],
    ['a hexadecimal key, which is a possible name', 'ab'.repeat(32), unavailable],
    ['an address', 'alice@example.com', unavailable],
    ['a profile', nip19.nprofileEncode({ pubkey: 'ab'.repeat(32) }), unavailable],
    ['an unknown name', 'unknown', unavailable],
    ['an invalid name', 'no_body.at-all', unavailable],
    ['an overlong name', 'x'.repeat(5_000), unavailable],
    ['an overlong npub', `npub1${'q'.repeat(5_000)}`, invalid],
  ])('gets an error in the LNURL format: %s', async (_case, user, reason) => {
    for (const query of ['', 'amount=1000']) {
      const { status, body } = await requestPay(user, query);
      expect({ status, body }).toEqual({ status: 200, body: { status: 'ERROR', reason } });
    }
  });
});

describe('an invoice', () => {
  it('comes from the mint with the requested amount, and its quote is stored', async () => {
    const wallet = world.newWallet();
    // BlueWallet adds a nonce; unknown parameters are ignored.
    const { status, body } = await requestPay(wallet.npub, 'amount=21000&nonce=abc');
    expect(status).toBe(200);
    expect(body).toEqual({ pr: expect.any(String), routes: [], verify: expect.any(String) });
    expect(decodeInvoice(body.pr)?.amountMsat).toBe(21_000);
    expect([...world.mint.quotes.values()].map((quote) => quote.request)).toContain(body.pr);
    expect(body.verify).toMatch(new RegExp(`^${world.origin}/lnurl/verify/[0-9a-f]{64}$`));
    expect(await findStoredQuote(body.pr)).toMatchObject({
      pubkey: wallet.pubkey,
      mint_url: world.mint.url,
      amount_sat: 21,
      state: 'UNPAID',
      locked: 0,
      verify_token_hash: createHash('sha256').update(body.verify.slice(-64)).digest('hex'),
    });
  });
});

describe('an invalid mint response', () => {
  it.each<[string, (request: QuoteRequest, valid: object) => object]>([
    ['an invoice without an amount', (_order, valid) => ({ ...valid, request: NO_AMOUNT_INVOICE })],
    ['an invalid invoice', (_order, valid) => ({ ...valid, request: 'lnbc210n1nonsense' })],
    [
      'an invoice that is one millisatoshi too high',
      ({ amount }, valid) => ({ ...valid, request: createUnpayableInvoice(amount * 1000 + 1) }),
    ],
    ['a quote for another amount', ({ amount }, valid) => ({ ...valid, amount: amount + 1 })],
    ['a quote in another unit', (_order, valid) => ({ ...valid, unit: 'msat' })],
    [
      'a lock that was not requested',
      (_order, valid) => ({ ...valid, pubkey: `02${'7'.repeat(64)}` }),
    ],
    ['no quote at all', () => []],
  ])('with %s returns an error and stores no quote', async (_case, respond) => {
    await expectNoInvoice(await createRecipient(respond));
  });

  it.each([
    ['no lock', undefined],
    ['a lock to another key', `02${'7'.repeat(64)}`],
  ])(
    'with %s instead of the requested lock returns an error and stores no quote',
    async (_case, pubkey) => {
      const wallet = await createRecipient((_order, valid) => ({ ...valid, pubkey }));
      await setLockQuotes(wallet, true);
      await expectNoInvoice(wallet);
    },
  );

  async function createRecipient(respond: (request: QuoteRequest, valid: object) => object) {
    const wallet = world.newWallet();
    const mint = await startScriptedMint(respond);
    await setMint(wallet, mint.url);
    return wallet;
  }

  it('that reuses an earlier quote returns an error', async () => {
    const [first, second] = [world.newWallet(), world.newWallet()];
    const reusedQuote = {
      quote: 'the-same',
      request: createUnpayableInvoice(21_000),
      unit: 'sat',
      expiry: null,
    };
    const mint = await startScriptedMint(() => reusedQuote);
    await setMint(first, mint.url);
    await setMint(second, mint.url);
    expect((await requestPay(first.npub, 'amount=21000')).body.pr).toBe(reusedQuote.request);
    expectUnavailable(await requestPay(second.npub, 'amount=21000'));
    expect(await findStoredQuote(reusedQuote.request)).toMatchObject({ pubkey: first.pubkey });
  });
});

describe('an unreachable mint', () => {
  it('does not affect discovery, even if it was never reachable', async () => {
    const mint = await TestMint.start();
    await mint.close();
    const service = await useAdditionalService(world, { DEFAULT_MINT_URL: mint.url });
    const path = `/.well-known/lnurlp/${world.newWallet().npub}`;
    expect((await requestJson(service.url, path)).body).toMatchObject({
      minSendable: 1_000,
      maxSendable: 1_000_000_000,
    });
    expectUnavailable(await requestJson(service.url, `${path}?amount=21000`));
  });
});

/** An example without an amount from BOLT 11. */
const NO_AMOUNT_INVOICE =
  'lnbc1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygspp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdpl2pkx2ctnv5sxxmmwwd5kgetjypeh2ursdae8g6twvus8g6rfwvs8qun0dfjkxaq9qrsgq357wnc5r2ueh7ck6q93dj32dlqnls087fxdwk8qakdyafkq3yap9us6v52vjjsrvywa6rt52cm9r9zqt8r2t7mlcwspyetp5h2tztugp9lfyql';

function requestPay(user: string, query = ''): Promise<ApiResponse> {
  return requestJson(world.origin, `/.well-known/lnurlp/${user}${query === '' ? '' : `?${query}`}`);
}

function findStoredQuote(invoice: string) {
  return world.database.db
    .selectFrom('quotes')
    .selectAll()
    .where('request', '=', invoice)
    .executeTakeFirstOrThrow();
}

/** Expects a temporary error in the format of LUD-06. */
function expectUnavailable({ status, body }: ApiResponse): void {
  expect({ status, body }).toEqual({
    status: 500,
    body: { status: 'ERROR', reason: expect.any(String) },
  });
}

async function expectNoInvoice(wallet: TestWallet): Promise<void> {
  expectUnavailable(await requestPay(wallet.npub, 'amount=21000'));
  const rows = await world.database.db
    .selectFrom('quotes')
    .select('id')
    .where('pubkey', '=', wallet.pubkey)
    .execute();
  expect(rows).toEqual([]);
}
