import { createHash } from 'node:crypto';
import { nip19 } from 'nostr-tools';
import { describe, expect, it } from 'vitest';
import { decodeInvoice } from '../../src/quotes/bolt11.ts';
import {
  createUnpayableInvoice,
  type QuoteResponseBuilder,
  startMintWithScriptedQuotes,
} from '../helpers/mints/fake-mint-with-scripted-quotes.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import {
  type ApiResponse,
  type RecipientClient,
  requestJson,
} from '../helpers/recipients/recipient-client.ts';
import {
  assignNewTestMint,
  setLockQuotes,
  setMint,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';

const CREATE_QUOTE = 'POST /v1/mint/quote/bolt11';

const environment = useTestEnvironment();

describe('LNURL-pay discovery', () => {
  it('returns the LUD-06 parameters for an npub in any case', async () => {
    const { npub } = environment.newWallet();
    const address = `${npub}@${new URL(environment.origin).host}`;
    const { status, headers, body } = await fetchLnurlPay(npub);
    expect(status).toBe(200);
    expect(headers.get('content-type')).toMatch(/^application\/json/);
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(body).toEqual({
      tag: 'payRequest',
      callback: `${environment.origin}/.well-known/lnurlp/${npub}`,
      minSendable: 1_000,
      maxSendable: 1_000_000_000,
      metadata: expect.any(String),
      commentAllowed: 255,
    });
    expect(JSON.parse(body.metadata)).toEqual([
      ['text/plain', `Payment to ${address}`],
      ['text/identifier', address],
    ]);
    expect((await fetchLnurlPay(npub.toUpperCase())).body).toEqual(body);
  });

  it('resolves a name that looks like an npub if it already has an owner', async () => {
    const wallet = environment.newWallet();
    await assignUsername(environment.database, wallet.pubkey, 'npublisher');
    const { pr } = (await fetchLnurlPay('npublisher', 'amount=5000')).body;
    expect(await findStoredQuote(pr)).toMatchObject({ pubkey: wallet.pubkey });
  });
});

describe('the sendable amount', () => {
  it.each([
    ['the mint if its limits are stricter', 5, 500_000, 5_000, 500_000_000],
    ['the operator if the mint has no limits', null, null, 1_000, 1_000_000_000],
  ])('is limited by %s', async (_, minAmountSat, maxAmountSat, minSendable, maxSendable) => {
    const wallet = environment.newWallet();
    await assignNewTestMint(wallet, { minAmountSat, maxAmountSat });
    expect((await fetchLnurlPay(wallet.npub)).body).toMatchObject({ minSendable, maxSendable });
  });

  it('is limited to the whole sats within the limits of the operator', async () => {
    const service = await useAdditionalService(environment, {
      MIN_SENDABLE_MSAT: '1500',
      MAX_SENDABLE_MSAT: '10500',
    });
    const path = `/.well-known/lnurlp/${environment.newWallet().npub}`;
    const { body } = await requestJson(service.url, path);
    expect(body).toMatchObject({ minSendable: 2_000, maxSendable: 10_000 });
  });

  it('makes the recipient unavailable if the limits of mint and operator do not overlap', async () => {
    const wallet = environment.newWallet();
    await assignNewTestMint(wallet, { minAmountSat: 2_000_000 });
    expectTemporaryError(await fetchLnurlPay(wallet.npub));
  });
});

describe('a requested amount', () => {
  it.each([
    ['negative', 'amount=-1000'],
    ['not a whole number of sats', 'amount=1500'],
    ['below the minimum', 'amount=999'],
    ['above the maximum', 'amount=1000001000'],
    ['given twice', 'amount=1000&amount=2000'],
  ])('that is %s is rejected before the mint is called', async (_case, query) => {
    const createdBefore = environment.mint.requestCounts[CREATE_QUOTE];
    const { status, body } = await fetchLnurlPay(environment.newWallet().npub, query);
    expect(status).toBe(200);
    expect(body).toEqual({ status: 'ERROR', reason: expect.stringMatching(/amount/i) });
    expect(environment.mint.requestCounts[CREATE_QUOTE]).toBe(createdBefore);
  });
});

describe('an unknown or invalid recipient', () => {
  const invalidReason = 'Invalid recipient.';
  const unavailableReason = 'Recipient unavailable.';
  const someNpub = nip19.npubEncode(
    '79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798',
  );

  it.each([
    ['an npub with a wrong checksum', `${someNpub.slice(0, -1)}q`, invalidReason],
    // These keys are not x coordinates of curve points. The last two are not even below the field size.
    ...[
      '05'.padStart(64, '0'),
      '0'.repeat(64),
      'fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f',
      'f'.repeat(64),
    ].map((key) => [`the invalid key ${key}`, nip19.npubEncode(key), invalidReason]),
    ['a hexadecimal key (which has the form of a name)', 'ab'.repeat(32), unavailableReason],
    ['an unknown name', 'unknown', unavailableReason],
    ['an overlong name', 'x'.repeat(5_000), unavailableReason],
    ['an overlong npub', `npub1${'q'.repeat(5_000)}`, invalidReason],
  ])('gets an error in the LNURL format: %s', async (_case, user, reason) => {
    for (const query of ['', 'amount=1000']) {
      const { status, body } = await fetchLnurlPay(user, query);
      expect({ status, body }).toEqual({ status: 200, body: { status: 'ERROR', reason } });
    }
  });
});

describe('an invoice', () => {
  it('comes from the mint, has the requested amount and belongs to a stored quote', async () => {
    const wallet = environment.newWallet();
    // BlueWallet adds a nonce. The service ignores unknown parameters.
    const { status, body } = await fetchLnurlPay(wallet.npub, 'amount=21000&nonce=abc');
    expect(status).toBe(200);
    expect(body).toEqual({ pr: expect.any(String), routes: [], verify: expect.any(String) });
    expect(decodeInvoice(body.pr)?.amountMsat).toBe(21_000);
    expect([...environment.mint.quotes.values()].map((quote) => quote.request)).toContain(body.pr);
    expect(body.verify).toMatch(new RegExp(`^${environment.origin}/lnurl/verify/[0-9a-f]{64}$`));
    expect(await findStoredQuote(body.pr)).toMatchObject({
      pubkey: wallet.pubkey,
      mint_url: environment.mint.url,
      amount_sat: 21,
      state: 'UNPAID',
      locked: 0,
      verify_token_hash: createHash('sha256').update(body.verify.slice(-64)).digest('hex'),
    });
  });
});

describe('an invalid mint response', () => {
  it.each<[string, (quote: { request: string }) => object]>([
    ['an invoice without an amount', () => ({ request: NO_AMOUNT_INVOICE })],
    ['an invalid invoice', () => ({ request: 'lnbc210n1nonsense' })],
    [
      'an invoice that is one millisatoshi too high',
      () => ({ request: createUnpayableInvoice(21_001) }),
    ],
    ['a quote for another amount', () => ({ amount: 22 })],
    ['a lock that was not requested', () => ({ pubkey: `02${'7'.repeat(64)}` })],
    // A payment would never be noticed.
    ['an unknown state', () => ({ state: 'OPEN' })],
    ['a state other than unpaid', () => ({ state: 'PAID' })],
    // Every payer knows the invoice. Anyone who knows the id of an unlocked quote can mint its ecash.
    [
      'a quote id that is the payment hash',
      ({ request }) => ({ quote: decodeInvoice(request)?.paymentHash }),
    ],
    ['a quote id that is the invoice', ({ request }) => ({ quote: request.toUpperCase() })],
  ])('with %s causes an error, and no quote is stored', async (_case, change) => {
    await expectNoInvoice(
      await createRecipientWithMint((_request, quote) => ({ ...quote, ...change(quote) })),
    );
  });

  it.each([
    ['no lock', undefined],
    ['a lock to another key', `02${'7'.repeat(64)}`],
  ])(
    'with %s instead of the requested lock causes an error, and no quote is stored',
    async (_case, pubkey) => {
      const wallet = await createRecipientWithMint((_request, quote) => ({ ...quote, pubkey }));
      await setLockQuotes(wallet, true);
      await expectNoInvoice(wallet);
    },
  );

  it('that reuses the quote of another recipient causes an error', async () => {
    const [first, second] = [environment.newWallet(), environment.newWallet()];
    const request = createUnpayableInvoice(21_000);
    const reusedQuote = { quote: 'the-same', request, unit: 'sat', state: 'UNPAID', expiry: null };
    const mint = await startMintWithScriptedQuotes(() => reusedQuote);
    await setMint(first, mint.url);
    await setMint(second, mint.url);
    expect((await fetchLnurlPay(first.npub, 'amount=21000')).body.pr).toBe(request);
    expectTemporaryError(await fetchLnurlPay(second.npub, 'amount=21000'));
    expect(await findStoredQuote(request)).toMatchObject({ pubkey: first.pubkey });
  });
});

describe('a failure of the mint', () => {
  it.each([408, 500, 520])(
    'with status %i is not noticed by the payer if a retry succeeds',
    async (status) => {
      const wallet = environment.newWallet();
      const mint = await assignNewTestMint(wallet);
      mint.failNext(CREATE_QUOTE, 1, status);
      expect((await fetchLnurlPay(wallet.npub, 'amount=21000')).body.pr).toMatch(/^lnbc/);
      expect(mint.requestCounts[CREATE_QUOTE]).toBe(2);
    },
  );

  it('causes an error if the retry fails, too', async () => {
    const wallet = environment.newWallet();
    const mint = await assignNewTestMint(wallet);
    mint.failNext(CREATE_QUOTE, 2, 502);
    expectTemporaryError(await fetchLnurlPay(wallet.npub, 'amount=21000'));
    expect(mint.requestCounts[CREATE_QUOTE]).toBe(2);
  });
});

describe('an unreachable mint', () => {
  it('prevents invoices but not discovery, even if it was never reachable', async () => {
    const mint = await startTestMint();
    await mint.stopListening();
    const service = await useAdditionalService(environment, { DEFAULT_MINT_URL: mint.url });
    const path = `/.well-known/lnurlp/${environment.newWallet().npub}`;
    expect((await requestJson(service.url, path)).body).toMatchObject({
      minSendable: 1_000,
      maxSendable: 1_000_000_000,
    });
    expectTemporaryError(await requestJson(service.url, `${path}?amount=21000`));

    await mint.startListening();
    const { body } = await requestJson(service.url, `${path}?amount=21000`);
    expect(body.pr).toMatch(/^lnbc/);
  });
});

const NO_AMOUNT_INVOICE =
  'lnbc1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygspp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdpl2pkx2ctnv5sxxmmwwd5kgetjypeh2ursdae8g6twvus8g6rfwvs8qun0dfjkxaq9qrsgq357wnc5r2ueh7ck6q93dj32dlqnls087fxdwk8qakdyafkq3yap9us6v52vjjsrvywa6rt52cm9r9zqt8r2t7mlcwspyetp5h2tztugp9lfyql';

function fetchLnurlPay(user: string, query = ''): Promise<ApiResponse> {
  return requestJson(
    environment.origin,
    `/.well-known/lnurlp/${user}${query === '' ? '' : `?${query}`}`,
  );
}

async function createRecipientWithMint(buildResponse: QuoteResponseBuilder) {
  const wallet = environment.newWallet();
  const mint = await startMintWithScriptedQuotes(buildResponse);
  await setMint(wallet, mint.url);
  return wallet;
}

function findStoredQuote(invoice: string) {
  return environment.database.db
    .selectFrom('quotes')
    .selectAll()
    .where('request', '=', invoice)
    .executeTakeFirstOrThrow();
}

function expectTemporaryError({ status, body }: ApiResponse): void {
  expect({ status, body }).toEqual({
    status: 500,
    body: { status: 'ERROR', reason: expect.any(String) },
  });
}

async function expectNoInvoice(wallet: RecipientClient): Promise<void> {
  expectTemporaryError(await fetchLnurlPay(wallet.npub, 'amount=21000'));
  const rows = await environment.database.db
    .selectFrom('quotes')
    .select('id')
    .where('pubkey', '=', wallet.pubkey)
    .execute();
  expect(rows).toEqual([]);
}
