import { createHash } from 'node:crypto';
import { nip19 } from 'nostr-tools';
import { describe, expect, it } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { readInvoice } from '../../src/quotes/bolt11.ts';
import { giveName } from '../helpers/names.ts';
import { invoiceFor, type QuoteOrder, startScriptedMint } from '../helpers/scripted-mint.ts';
import { type ApiAnswer, request, type TestWallet } from '../helpers/wallet.ts';
import { chooseMint, giveOwnMint, serveBeside, setLock, useWorld } from '../helpers/world.ts';

/** `GET /.well-known/lnurlp/{user}` (spec.md section 4.8), by LUD-06 and LUD-16. */

const CREATE_QUOTE = 'POST /v1/mint/quote/bolt11';

const world = useWorld();

describe('discovery', () => {
  it('gives a payer all that it needs, for an npub in any case', async () => {
    const { npub } = world.newWallet();
    const address = `${npub}@${new URL(world.base).host}`;
    const { status, headers, body } = await pay(npub);
    expect(status).toBe(200);
    expect(headers.get('content-type')).toMatch(/^application\/json/);
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(body).toEqual({
      tag: 'payRequest',
      callback: `${world.base}/.well-known/lnurlp/${npub}`,
      minSendable: 1_000,
      maxSendable: 1_000_000_000,
      metadata: expect.any(String),
      commentAllowed: 255,
    });
    expect(JSON.parse(body.metadata)).toEqual([
      ['text/plain', `Payment to ${address}`],
      ['text/identifier', address],
    ]);
    expect((await pay(npub.toUpperCase())).body).toEqual(body);
  });

  it('finds the owner of a name, in any case, and pays them', async () => {
    const wallet = world.newWallet();
    await giveName(world.database, wallet.pubkey, 'alice');
    const { body } = await pay('Alice');
    const host = new URL(world.base).host;
    expect(body.callback).toBe(`${world.base}/.well-known/lnurlp/alice`);
    expect(JSON.parse(body.metadata)).toContainEqual(['text/identifier', `alice@${host}`]);

    const { pr } = (await pay('ALICE', 'amount=5000')).body;
    expect(await keptQuote(pr)).toMatchObject({ pubkey: wallet.pubkey, amount_sat: 5 });
  });
});

describe('what may be sent', () => {
  it.each([
    ['a mint’s own limits', { minAmountSat: 5, maxAmountSat: 500_000 }, [5_000, 500_000_000]],
    ['a mint without limits', { minAmountSat: null, maxAmountSat: null }, [1_000, 1_000_000_000]],
    ['a mint that takes more', { maxAmountSat: 9_000_000 }, [1_000, 1_000_000_000]],
  ])('is narrowed by %s', async (_case, switches, [minSendable, maxSendable]) => {
    const wallet = world.newWallet();
    await giveOwnMint(wallet, switches);
    expect((await pay(wallet.npub)).body).toMatchObject({ minSendable, maxSendable });
  });

  it('is narrowed by the operator, to whole sats', async () => {
    const service = await serveBeside(world, {
      MIN_SENDABLE_MSAT: '1500',
      MAX_SENDABLE_MSAT: '10500',
    });
    const { body } = await request(service.url, `/.well-known/lnurlp/${world.newWallet().npub}`);
    expect(body).toMatchObject({ minSendable: 2_000, maxSendable: 10_000 });
  });

  it('is nothing where mint and operator leave no room', async () => {
    const wallet = world.newWallet();
    await giveOwnMint(wallet, { minAmountSat: 2_000_000 });
    expectUnavailable(await pay(wallet.npub));
  });

  it.each([
    ['negative', 'amount=-1000'],
    ['a fraction', 'amount=1000.5'],
    ['not whole sats', 'amount=1500'],
    ['below the smallest', 'amount=999'],
    ['above the largest', 'amount=1000001000'],
    ['beyond all numbers', `amount=${'9'.repeat(400)}`],
    ['in another notation', 'amount=1e3'],
    ['empty', 'amount='],
    ['given twice', 'amount=1000&amount=2000'],
  ])('refuses an amount that is %s, and asks no mint for it', async (_case, query) => {
    const before = world.mint.requestCounts[CREATE_QUOTE];
    const { status, body } = await pay(world.newWallet().npub, query);
    expect(status).toBe(200);
    expect(body).toEqual({ status: 'ERROR', reason: expect.stringMatching(/amount/i) });
    expect(world.mint.requestCounts[CREATE_QUOTE]).toBe(before);
  });
});

describe('who cannot be paid', () => {
  const invalid = 'Invalid recipient.';
  const unavailable = 'Recipient unavailable.';
  const someNpub = nip19.npubEncode(
    '79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798',
  );

  it.each([
    ['an npub with a wrong checksum', `${someNpub.slice(0, -1)}q`, invalid],
    ['an npub that is cut off', someNpub.slice(0, 20), invalid],
    // No point of the curve has these x coordinates; the last two are not below the field's size.
    ...[
      '05'.padStart(64, '0'),
      '0'.repeat(64),
      'fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f',
      'f'.repeat(64),
    ].map((key) => [`the key ${key}, which is no point`, nip19.npubEncode(key), invalid]),
    ['the prefix of an npub', 'npub1', invalid],
    ['a key in hex, which could be a name', 'ab'.repeat(32), unavailable],
    ['an address', 'alice@example.com', unavailable],
    ['a profile', nip19.nprofileEncode({ pubkey: 'ab'.repeat(32) }), unavailable],
    ['a name that nobody has', 'nobody', unavailable],
    ['a name that nobody can have', 'no_body.at-all', unavailable],
    ['a name beyond all length', 'x'.repeat(5_000), unavailable],
    ['an npub beyond all length', `npub1${'q'.repeat(5_000)}`, invalid],
  ])('%s', async (_case, user, reason) => {
    for (const query of ['', 'amount=1000']) {
      const { status, body } = await pay(user, query);
      expect({ status, body }).toEqual({ status: 200, body: { status: 'ERROR', reason } });
    }
  });
});

describe('an invoice', () => {
  it('is the mint’s own, for the amount requested, and is stored before the payer has it', async () => {
    const wallet = world.newWallet();
    // BlueWallet adds a nonce; unknown parameters are ignored.
    const { status, body } = await pay(wallet.npub, 'amount=21000&nonce=abc');
    expect(status).toBe(200);
    expect(body).toEqual({ pr: expect.any(String), routes: [], verify: expect.any(String) });
    expect(readInvoice(body.pr)?.amountMsat).toBe(21_000);
    expect([...world.mint.quotes.values()].map((quote) => quote.request)).toContain(body.pr);
    expect(body.verify).toMatch(new RegExp(`^${world.base}/lnurl/verify/[0-9a-f]{64}$`));
    expect(await keptQuote(body.pr)).toMatchObject({
      pubkey: wallet.pubkey,
      mint_url: world.mint.url,
      amount_sat: 21,
      state: 'UNPAID',
      locked: 0,
      verify_hash: createHash('sha256').update(body.verify.slice(-64)).digest('hex'),
    });
  });
});

describe('a mint that cannot be trusted', () => {
  it.each<[string, (order: QuoteOrder, good: object) => object]>([
    ['an invoice without an amount', (_order, good) => ({ ...good, request: NO_AMOUNT_INVOICE })],
    ['an invalid invoice', (_order, good) => ({ ...good, request: 'lnbc210n1nonsense' })],
    [
      'an invoice that is a millisatoshi too high',
      ({ amount }, good) => ({ ...good, request: invoiceFor(amount * 1000 + 1) }),
    ],
    ['a quote over another amount', ({ amount }, good) => ({ ...good, amount: amount + 1 })],
    ['a quote in another unit', (_order, good) => ({ ...good, unit: 'msat' })],
    ['a lock without request', (_order, good) => ({ ...good, pubkey: `02${'7'.repeat(64)}` })],
    ['no quote at all', () => []],
  ])('gets no payer for %s', async (_case, answer) => {
    await expectNoInvoice(await payeeAt(answer));
  });

  it.each([
    ['not', undefined],
    ['with another key', `02${'7'.repeat(64)}`],
  ])('gets no payer for a quote that is to be locked and is %s', async (_case, pubkey) => {
    const wallet = await payeeAt((_order, good) => ({ ...good, pubkey }));
    await setLock(wallet, true);
    await expectNoInvoice(wallet);
  });

  async function payeeAt(answer: (order: QuoteOrder, good: object) => object) {
    const wallet = world.newWallet();
    const mint = await startScriptedMint(answer);
    await chooseMint(wallet, mint.url);
    return wallet;
  }

  it('is refused a quote that it has given out before', async () => {
    const [first, second] = [world.newWallet(), world.newWallet()];
    const once = { quote: 'the-same', request: invoiceFor(21_000), unit: 'sat', expiry: null };
    const mint = await startScriptedMint(() => once);
    await chooseMint(first, mint.url);
    await chooseMint(second, mint.url);
    expect((await pay(first.npub, 'amount=21000')).body.pr).toBe(once.request);
    expectUnavailable(await pay(second.npub, 'amount=21000'));
    expect(await keptQuote(once.request)).toMatchObject({ pubkey: first.pubkey });
  });
});

describe('a mint in trouble', () => {
  it('leaves discovery alone, even one that was never reached', async () => {
    const mint = await TestMint.start();
    await mint.close();
    const service = await serveBeside(world, { DEFAULT_MINT_URL: mint.url });
    const path = `/.well-known/lnurlp/${world.newWallet().npub}`;
    expect((await request(service.url, path)).body).toMatchObject({
      minSendable: 1_000,
      maxSendable: 1_000_000_000,
    });
    expectUnavailable(await request(service.url, `${path}?amount=21000`));
  });
});

/** BOLT 11's own example of an invoice for any amount. */
const NO_AMOUNT_INVOICE =
  'lnbc1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygspp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdpl2pkx2ctnv5sxxmmwwd5kgetjypeh2ursdae8g6twvus8g6rfwvs8qun0dfjkxaq9qrsgq357wnc5r2ueh7ck6q93dj32dlqnls087fxdwk8qakdyafkq3yap9us6v52vjjsrvywa6rt52cm9r9zqt8r2t7mlcwspyetp5h2tztugp9lfyql';

function pay(user: string, query = ''): Promise<ApiAnswer> {
  return request(world.base, `/.well-known/lnurlp/${user}${query === '' ? '' : `?${query}`}`);
}

function keptQuote(invoice: string) {
  return world.database.db
    .selectFrom('quotes')
    .selectAll()
    .where('request', '=', invoice)
    .executeTakeFirstOrThrow();
}

/** LUD-06's shape, with the status that says "later". */
function expectUnavailable({ status, body }: ApiAnswer): void {
  expect({ status, body }).toEqual({
    status: 500,
    body: { status: 'ERROR', reason: expect.any(String) },
  });
}

async function expectNoInvoice(wallet: TestWallet): Promise<void> {
  expectUnavailable(await pay(wallet.npub, 'amount=21000'));
  const kept = await world.database.db
    .selectFrom('quotes')
    .select('id')
    .where('pubkey', '=', wallet.pubkey)
    .execute();
  expect(kept).toEqual([]);
}
