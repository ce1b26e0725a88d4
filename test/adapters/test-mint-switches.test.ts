import { Wallet } from '@cashu/cashu-ts';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import type { ChaosRates } from '../../src/demo/test-mint/chaos.ts';
import type { SentAnswer } from '../../src/demo/test-mint/http.ts';
import { TestMint } from '../../src/demo/test-mint.ts';
import { readInvoice } from '../../src/domain/bolt11.ts';
import { invoiceField } from '../helpers/invoice-field.ts';
import { MintSocketClient } from '../helpers/mint-socket-client.ts';

/** Each switch of the test mint does what a real mint was seen to do. */

const START = Date.UTC(2026, 10, 21);
const PUBKEY = '0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798';
const NO_POINT = `02${'00'.repeat(32)}`;
const LONG = 'x'.repeat(1100);
const HASH = 'd5'.repeat(32);
const ARRAY_OF_ISSUES = { detail: [{ loc: expect.arrayContaining(['body']) }] };
let now: number;
let mint: TestMint;

beforeEach(async () => {
  now = START;
  mint = await TestMint.start({ now: () => now });
});

afterEach(() => mint.close());

describe('style', () => {
  test('Nutshell tells a quote with these fields', async () => {
    const created = await createQuote();
    expect(created).toEqual({
      quote: expect.any(String),
      request: expect.stringMatching(/^lnbc210n1/),
      amount: 21,
      unit: 'sat',
      amount_paid: 0,
      amount_issued: 0,
      updated_at: START / 1000,
      state: 'UNPAID',
      expiry: START / 1000 + 3600,
      pubkey: null,
    });
    now += 2000;
    mint.pay(created.request);
    expect(await readQuote(created)).toEqual({
      ...created,
      amount_paid: 21,
      updated_at: START / 1000 + 2,
      state: 'PAID',
    });
  });

  test('cdk adds the method, and leaves the pubkey out where there is none', async () => {
    mint.switches.style = 'cdk';
    const created = await createQuote();
    expect(created).toMatchObject({ method: 'bolt11', state: 'UNPAID' });
    expect(created).not.toHaveProperty('pubkey');
    expect(await createQuote({ pubkey: PUBKEY })).toHaveProperty('pubkey', PUBKEY);
  });

  test.each([
    ['malformed JSON', '{"amount":', 422, ARRAY_OF_ISSUES, 400, /^Failed to parse/],
    ['an amount as text', { amount: '21', unit: 'sat' }, 422, ARRAY_OF_ISSUES, 422, /amount/],
    ['no amount', { unit: 'sat' }, 422, ARRAY_OF_ISSUES, 400, { code: 50000 }],
    ['amount zero', { amount: 0, unit: 'sat' }, 422, ARRAY_OF_ISSUES, 400, { code: 11006 }],
    ['another unit', { amount: 1, unit: 'eur' }, 400, { code: 10000 }, 400, { code: 11013 }],
    [
      'a long description',
      order({ description: LONG }),
      422,
      ARRAY_OF_ISSUES,
      400,
      { code: 50000 },
    ],
    [
      'a pubkey off the curve',
      order({ pubkey: NO_POINT }),
      200,
      { pubkey: NO_POINT },
      400,
      { code: 50000 },
    ],
  ])('%s is answered as each of them does', async (_what, body, nStatus, nBody, cStatus, cBody) => {
    expectAnswer(await post('/v1/mint/quote/bolt11', body), nStatus, nBody);
    mint.switches.style = 'cdk';
    expectAnswer(await post('/v1/mint/quote/bolt11', body), cStatus, cBody);
  });

  test('an unknown quote has its own code with each of them, also within a batch', async () => {
    const known = await createQuote();
    const asked = [
      () => get('/v1/mint/quote/bolt11/nope'),
      () => checkBatch([known.quote, 'nope']),
    ];
    for (const ask of asked) {
      mint.switches.style = 'nutshell';
      expectAnswer(await ask(), 400, { detail: 'quote not found', code: 0 });
      mint.switches.style = 'cdk';
      expectAnswer(await ask(), 400, { detail: 'Unknown quote', code: 50000 });
    }
  });

  test('cdk alone refuses a duplicate, and an empty batch', async () => {
    const { quote } = await createQuote();
    expect((await checkBatch([quote, quote])).status).toBe(200);
    expectAnswer(await checkBatch([]), 200, []);
    mint.switches.style = 'cdk';
    expectAnswer(await checkBatch([quote, quote]), 400, { code: 11016 });
    expectAnswer(await checkBatch([]), 400, { code: 50000 });
  });

  test('cdk alone refuses a signature on an unlocked quote', async () => {
    const wallet = await loadedWallet();
    const quote = await wallet.createMintQuoteBolt11(8);
    mint.pay(quote.request);
    const mintSigned = () => wallet.mintProofsBolt11(8, quote.quote, { privkey: '01'.repeat(32) });
    mint.switches.style = 'cdk';
    await expect(mintSigned()).rejects.toMatchObject({ code: 20008 });
    mint.switches.style = 'nutshell';
    await expect(mintSigned()).resolves.toHaveLength(1);
  });

  test('Nutshell alone mints nothing once the quote has expired', async () => {
    const wallet = await loadedWallet();
    const quote = await wallet.createMintQuoteBolt11(8);
    mint.pay(quote.request);
    now += 3601 * 1000;
    await expect(wallet.mintProofsBolt11(8, quote.quote)).rejects.toMatchObject({ code: 20007 });
    mint.switches.style = 'cdk';
    await expect(wallet.mintProofsBolt11(8, quote.quote)).resolves.toHaveLength(1);
  });

  test('an unknown route is a 404', async () => {
    expectAnswer(await get('/v1/melt/quote/bolt11'), 404, { detail: 'Not Found' });
    mint.switches.style = 'cdk';
    expectAnswer(await get('/nowhere'), 404, /^$/);
  });
});

describe('batch', () => {
  test('is advertised, or only there, or absent', async () => {
    const { quote } = await createQuote();
    expect((await nuts())[29]).toEqual({
      supported: true,
      max_batch_size: 1000,
      methods: ['bolt11'],
    });
    mint.switches.batch = 'unadvertised';
    expect(await nuts()).not.toHaveProperty('29');
    expect((await checkBatch([quote])).status).toBe(200);
    mint.switches.batch = 'absent';
    expect(await nuts()).not.toHaveProperty('29');
    expect((await checkBatch([quote])).status).toBe(404);
    expect((await post('/v1/mint/bolt11/batch', '{"quotes":[],"outputs":[]}')).status).toBe(404);
  });

  test('is bounded by maxBatchSize', async () => {
    mint.switches.maxBatchSize = 2;
    const ids = [await createQuote(), await createQuote(), await createQuote()].map((q) => q.quote);
    expect((await checkBatch(ids.slice(1))).status).toBe(200);
    expectAnswer(await checkBatch(ids), 400, { code: 11017 });
  });
});

describe('quotes', () => {
  test('locking: not advertised, the pubkey ignored', async () => {
    expect((await nuts())[20]).toEqual({ supported: true });
    mint.switches.locking = false;
    expect((await nuts())[20]).toEqual({ supported: false });
    expect(await createQuote({ pubkey: PUBKEY })).toMatchObject({ pubkey: null });
  });

  test('echoPubkey: advertised, but the pubkey forgotten', async () => {
    mint.switches.echoPubkey = false;
    expect((await nuts())[20]).toEqual({ supported: true });
    expect(await createQuote({ pubkey: PUBKEY })).toMatchObject({ pubkey: null });
  });

  test('description: advertised where each style has it, else refused', async () => {
    expect(await bolt11Method()).toMatchObject({ options: { description: true } });
    mint.switches.style = 'cdk';
    expect(await bolt11Method()).toMatchObject({ description: true });
    mint.switches.description = false;
    expect(await bolt11Method()).toEqual({ method: 'bolt11', unit: 'sat' });
    expect((await post('/v1/mint/quote/bolt11', order({ description: 'tea' }))).status).toBe(400);
  });

  test('descriptionHash: advertised where each style has descriptions, and in the invoice', async () => {
    mint.switches.descriptionHash = true;
    const options = { description: true, description_hash: true };
    expect(await bolt11Method()).toMatchObject({ options });
    mint.switches.style = 'cdk';
    expect(await bolt11Method()).toMatchObject(options);
    const { request } = await createQuote({ description_hash: HASH });
    expect(invoiceField(request, 'description_hash')).toBe(HASH);
    expect(invoiceField(request, 'description')).toBeUndefined();
  });

  test.each([
    ['that is none', { description_hash: 'tea' }],
    ['beside a description', { description_hash: HASH, description: 'tea' }],
  ])('descriptionHash: a hash %s is refused', async (_what, words) => {
    mint.switches.descriptionHash = true;
    expect((await post('/v1/mint/quote/bolt11', order(words))).status).toBe(422);
  });

  test('descriptionHash: passed over where it is not offered', async () => {
    const options = { description: true };
    expect(await bolt11Method()).toEqual({ method: 'bolt11', unit: 'sat', options });
    const { request } = await createQuote({ description_hash: HASH });
    expect(invoiceField(request, 'description')).toBe('');
  });

  test('minAmountSat and maxAmountSat: advertised and held', async () => {
    Object.assign(mint.switches, { minAmountSat: 10, maxAmountSat: 20 });
    expect(await bolt11Method()).toMatchObject({ min_amount: 10, max_amount: 20 });
    const statusOf = async (amount: number) =>
      (await post('/v1/mint/quote/bolt11', order({ amount }))).status;
    expect(await statusOf(9)).toBe(400);
    expect(await statusOf(10)).toBe(200);
    expect(await statusOf(20)).toBe(200);
    expect(await statusOf(21)).toBe(400);
  });

  test('mintDisabled: advertised, and no new quotes', async () => {
    mint.switches.mintDisabled = true;
    expect((await nuts())[4]).toMatchObject({ disabled: true });
    expectAnswer(await post('/v1/mint/quote/bolt11', order({})), 400, { code: 20003 });
  });

  test('quoteIdStyle: a UUIDv7 or base64url', async () => {
    expect((await createQuote()).quote).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}$/);
    mint.switches.quoteIdStyle = 'base64url';
    const created = await createQuote();
    expect(created.quote).toMatch(/^[A-Za-z0-9_-]{40}$/);
    expect(await readQuote(created)).toEqual(created);
  });

  test('expirySeconds and expiryField: the invoice tells the truth, the field may not', async () => {
    mint.switches.expirySeconds = 60;
    const expiresAt = START / 1000 + 60;
    const fields = { seconds: expiresAt, zero: 0, null: null, milliseconds: expiresAt * 1000 };
    for (const field of ['seconds', 'zero', 'null', 'milliseconds'] as const) {
      mint.switches.expiryField = field;
      const { expiry, request } = await createQuote();
      expect(expiry).toBe(fields[field]);
      expect(readInvoice(request)?.expiresAt).toBe(expiresAt);
    }
  });

  test('dropLaterFacts: later answers know neither expiry nor pubkey', async () => {
    mint.switches.dropLaterFacts = true;
    const created = await createQuote({ pubkey: PUBKEY });
    expect(created).toMatchObject({ expiry: START / 1000 + 3600, pubkey: PUBKEY });
    const later = { ...created, expiry: null, pubkey: '' };
    expect(await readQuote(created)).toEqual(later);
    expect((await checkBatch([created.quote])).body).toEqual([later]);
  });

  test('wrongInvoiceAmountSat: the invoice is for another amount than asked', async () => {
    mint.switches.wrongInvoiceAmountSat = 22;
    const { amount, request } = await createQuote();
    expect(amount).toBe(21);
    expect(readInvoice(request)?.amountMsat).toBe(22_000);
  });

  test('payAutomaticallyAfterMs: somebody pays, unless it was paid before', async () => {
    mint.switches.payAutomaticallyAfterMs = 5;
    const { quote } = await createQuote();
    const other = await createQuote();
    mint.pay(other.request);
    await expect.poll(() => mint.quotes.get(quote)?.state).toBe('PAID');
    expect(mint.quotes.get(other.quote)?.state).toBe('PAID');
  });
});

describe('trouble', () => {
  test('rateLimit: each route has its own, and every request starts the minute anew', async () => {
    mint.switches.rateLimit = { perMinute: 2 };
    const statusOf = async () => (await get('/v1/keysets')).status;
    expect([await statusOf(), await statusOf(), await statusOf()]).toEqual([200, 200, 429]);
    expect((await get('/v1/keys')).status).toBe(200);
    now += 59_000;
    expect(await statusOf()).toBe(429);
    now += 59_000;
    expect(await statusOf()).toBe(429);
    now += 60_000;
    expect(await statusOf()).toBe(200);
    now += 59_000;
    expect(await statusOf()).toBe(200);
    now += 59_000;
    expect(await statusOf()).toBe(429);
  });

  test('rateLimit: a sliding window admits as many as left it, and may be shorter or raised', async () => {
    mint.switches.rateLimit = { perMinute: 2, window: 'sliding', windowMs: 3_000 };
    const statusOf = async () => (await get('/v1/keysets')).status;
    expect([await statusOf(), await statusOf(), await statusOf()]).toEqual([200, 200, 429]);
    now += 2_999;
    expect(await statusOf()).toBe(429);
    mint.switches.rateLimit.perMinute = 3;
    expect([await statusOf(), await statusOf()]).toEqual([200, 429]);
    now += 1;
    expect([await statusOf(), await statusOf(), await statusOf()]).toEqual([200, 200, 429]);
  });

  test('rateLimit: an elastic window may be shorter than a minute', async () => {
    mint.switches.rateLimit = { perMinute: 1, windowMs: 3_000 };
    const statusOf = async () => (await get('/v1/keysets')).status;
    expect([await statusOf(), await statusOf()]).toEqual([200, 429]);
    now += 3_000;
    expect(await statusOf()).toBe(200);
  });

  test('rateLimit: the answer names a time only where it is told to', async () => {
    mint.switches.rateLimit = { perMinute: 0 };
    const bare = await fetch(`${mint.url}/v1/keysets`);
    expect(await bare.json()).toEqual({ detail: 'Rate limit exceeded.' });
    expect(bare.headers.get('retry-after')).toBeNull();
    mint.switches.rateLimit = { perMinute: 0, retryAfterSeconds: 7 };
    expect((await fetch(`${mint.url}/v1/keysets`)).headers.get('retry-after')).toBe('7');
  });

  test('delayMs: the answer takes its time', async () => {
    mint.switches.delayMs = 30;
    const startedAt = performance.now();
    expect((await get('/v1/keysets')).status).toBe(200);
    expect(performance.now() - startedAt).toBeGreaterThan(28);
  });

  test('dead: a request is taken and never answered', async () => {
    mint.switches.dead = true;
    const signal = AbortSignal.timeout(50);
    await expect(fetch(`${mint.url}/v1/info`, { signal })).rejects.toThrow('timeout');
    expect(mint.requestCounts['GET /v1/info']).toBe(1);
  });

  test('failNext: so many requests of one route fail', async () => {
    mint.failNext('POST /v1/mint/quote/bolt11', 2);
    const statusOf = async () => (await post('/v1/mint/quote/bolt11', order({}))).status;
    expect((await get('/v1/keysets')).status).toBe(200);
    expect([await statusOf(), await statusOf(), await statusOf()]).toEqual([500, 500, 200]);
    expect(mint.requestCounts['POST /v1/mint/quote/bolt11']).toBe(3);
  });

  test('rateLimitNext: one 429 on one route, with or without a time', async () => {
    mint.rateLimitNext('GET /v1/keysets');
    mint.rateLimitNext('GET /v1/keysets', { retryAfterSeconds: 3 });
    expect((await get('/v1/keys')).status).toBe(200);
    const bare = await fetch(`${mint.url}/v1/keysets`);
    expect([bare.status, bare.headers.get('retry-after')]).toEqual([429, null]);
    const timed = await fetch(`${mint.url}/v1/keysets`);
    expect([timed.status, timed.headers.get('retry-after')]).toEqual([429, '3']);
    expect((await get('/v1/keysets')).status).toBe(200);
  });

  test('stopListening: refuses connections until startListening, and keeps its quotes', async () => {
    const created = await createQuote();
    const socket = await MintSocketClient.open(mint.url);
    await mint.stopListening();
    await expect.poll(() => mint.openSocketCount).toBe(0);
    await expect(fetch(`${mint.url}/v1/info`)).rejects.toThrow('fetch failed');
    mint.pay(created.request);
    await mint.startListening();
    expect(await readQuote(created)).toMatchObject({ state: 'PAID' });
    socket.close();
  });

  test('closing a mint that does not listen succeeds', async () => {
    const closing = await TestMint.start();
    await closing.stopListening();
    await expect(closing.close()).resolves.toBeUndefined();
  });

  test('onAnswer: reports each answer with its route, status and times', async () => {
    const answers: SentAnswer[] = [];
    const observed = await TestMint.start({ onAnswer: (answer) => answers.push(answer) });
    observed.failNext('GET /v1/keysets');
    await fetch(`${observed.url}/v1/keysets`);
    await fetch(`${observed.url}/v1/mint/quote/bolt11/nope`);
    await fetch(`${observed.url}/unknown`);
    await observed.close();
    expect(answers).toMatchObject([
      { route: 'GET /v1/keysets', status: 500 },
      { route: 'GET /v1/mint/quote/bolt11/:id', status: 400 },
    ]);
    for (const { receivedAtMs, sentAtMs } of answers) {
      expect(sentAtMs).toBeGreaterThanOrEqual(receivedAtMs);
    }
  });

  test('closing ends what is delayed or unanswered, at once', async () => {
    const closing = await TestMint.start({ switches: { delayMs: 60_000 } });
    const asked = fetch(`${closing.url}/v1/info`);
    asked.catch(() => {});
    await expect.poll(() => closing.requestCounts['GET /v1/info']).toBe(1);
    await closing.close();
    await expect(asked).rejects.toThrow();
  });
});

describe('chaos: what happens by chance, here always', () => {
  const CALM: ChaosRates = {
    error: 0,
    garbage: 0,
    cutBefore: 0,
    cutAfter: 0,
    silence: 0,
    rateLimit: 0,
    bareRateLimit: 0,
    late: 0,
    shuffledBatch: 0,
    brokenOpening: 0,
    lostMessage: 0,
    lateMessage: 0,
    repeatedMessage: 0,
    staleFirstState: 0,
  };

  test('error: 500 or 503, and nothing is done', async () => {
    mint.switches.chaos = { rates: { ...CALM, error: 1 } };
    const statuses = new Set<number>();
    for (let i = 0; i < 20; i += 1) {
      statuses.add((await post('/v1/mint/quote/bolt11', order({}))).status);
    }
    expect(statuses).toEqual(new Set([500, 503]));
    expect(mint.quotes.size).toBe(0);
    expect(mint.chaosCounts.error).toBe(20);
  });

  test('garbage: half of an answer, but all was done', async () => {
    mint.switches.chaos = { rates: { ...CALM, garbage: 1 } };
    const answer = await fetch(`${mint.url}/v1/mint/quote/bolt11`, {
      method: 'POST',
      body: JSON.stringify(order({})),
    });
    expect(answer.status).toBe(200);
    await expect(answer.json()).rejects.toThrow(SyntaxError);
    expect(mint.quotes.size).toBe(1);
  });

  test('cutBefore and cutAfter: no answer; the one does nothing, the other all', async () => {
    mint.switches.chaos = { rates: { ...CALM, cutBefore: 1 } };
    await expect(post('/v1/mint/quote/bolt11', order({}))).rejects.toThrow('fetch failed');
    expect(mint.quotes.size).toBe(0);
    mint.switches.chaos = { rates: { ...CALM, cutAfter: 1 } };
    await expect(post('/v1/mint/quote/bolt11', order({}))).rejects.toThrow('fetch failed');
    expect(mint.quotes.size).toBe(1);
  });

  test('silence: no answer, for as long as anybody waits', async () => {
    mint.switches.chaos = { rates: { ...CALM, silence: 1 } };
    const signal = AbortSignal.timeout(50);
    await expect(fetch(`${mint.url}/v1/info`, { signal })).rejects.toThrow('timeout');
    expect(mint.chaosCounts.silence).toBe(1);
  });

  test('rateLimit and bareRateLimit: 429, and only the one says for how long', async () => {
    mint.switches.chaos = { rates: { ...CALM, rateLimit: 1 } };
    const limited = await fetch(`${mint.url}/v1/info`);
    expect(limited.status).toBe(429);
    expect(limited.headers.get('retry-after')).toMatch(/^[12]$/);
    mint.switches.chaos = { rates: { ...CALM, bareRateLimit: 1 } };
    const bare = await fetch(`${mint.url}/v1/info`);
    expect(bare.status).toBe(429);
    expect(bare.headers.get('retry-after')).toBeNull();
  });

  test('late: the answer is overtaken by what happens meanwhile', async () => {
    const created = await createQuote();
    mint.switches.chaos = { rates: { ...CALM, late: 1 } };
    const asked = readQuote(created);
    await expect.poll(() => mint.chaosCounts.late).toBe(1);
    mint.switches.chaos = null;
    mint.pay(created.request);
    expect(await readQuote(created)).toMatchObject({ state: 'PAID' });
    expect(await asked).toMatchObject({ state: 'UNPAID' });
  });

  test('shuffledBatch: every answer, in another order, and some of them twice', async () => {
    const ids: string[] = [];
    while (ids.length < 30) {
      ids.push((await createQuote()).quote);
    }
    mint.switches.chaos = { rates: { ...CALM, shuffledBatch: 1 } };
    const answered = ((await checkBatch(ids)).body as QuoteAnswer[]).map(({ quote }) => quote);
    expect(new Set(answered)).toEqual(new Set(ids));
    expect(answered.length).toBeGreaterThan(ids.length);
    expect([...new Set(answered)]).not.toEqual(ids);
  });

  test('brokenOpening: no WebSocket is opened', async () => {
    mint.switches.chaos = { rates: { ...CALM, brokenOpening: 1 } };
    for (let i = 0; i < 10; i += 1) {
      const socket = new WebSocket(`${mint.url}/v1/ws`, { handshakeTimeout: 50 });
      const outcome = Promise.withResolvers<'opened' | 'broken'>();
      socket.on('open', () => outcome.resolve('opened'));
      socket.on('error', () => outcome.resolve('broken'));
      expect(await outcome.promise).toBe('broken');
    }
    expect(mint.chaosCounts.brokenOpening).toBe(10);
  });

  test('lostMessage and repeatedMessage: a WebSocket says nothing, or all twice', async () => {
    const { quote, request } = await createQuote();
    const client = await MintSocketClient.open(mint.url);
    mint.switches.chaos = { rates: { ...CALM, lostMessage: 1 } };
    client.subscribe('sub-1', [quote]);
    await expect.poll(() => mint.chaosCounts.lostMessage).toBe(2);
    mint.switches.chaos = { rates: { ...CALM, repeatedMessage: 1 } };
    mint.pay(request);
    expect(await client.nextState()).toBe('PAID');
    expect(await client.nextState()).toBe('PAID');
    client.close();
  });

  test('lateMessage: messages of a WebSocket overtake each other', async () => {
    const subIds = Array.from({ length: 10 }, (_, i) => `sub-${i}`);
    const client = await MintSocketClient.open(mint.url);
    mint.switches.chaos = { rates: { ...CALM, lateMessage: 1 } };
    for (const subId of subIds) {
      client.subscribe(subId, []);
    }
    const answered: (string | undefined)[] = [];
    while (answered.length < subIds.length) {
      answered.push((await client.next()).result?.subId);
    }
    expect(answered).not.toEqual(subIds);
    expect(answered.toSorted()).toEqual(subIds);
    client.close();
  });

  test('staleFirstState: a subscriber first hears of the past', async () => {
    const { quote, request } = await createQuote();
    mint.pay(request);
    mint.switches.chaos = { rates: { ...CALM, staleFirstState: 1 } };
    const client = await MintSocketClient.open(mint.url);
    client.subscribe('sub-1', [quote]);
    await client.next();
    expect(await client.nextState()).toBe('UNPAID');
    await mint.issue(quote);
    expect(await client.nextState()).toBe('ISSUED');
    client.close();
  });

  test('on one route it may be otherwise', async () => {
    const ratesByRoute = { 'GET /v1/keysets': { error: 0 } };
    mint.switches.chaos = { rates: { ...CALM, error: 1 }, ratesByRoute };
    expect((await get('/v1/keysets')).status).toBe(200);
    expect((await get('/v1/keys')).status).toBeGreaterThanOrEqual(500);
  });

  test('the same seed lets the same things happen, and another seed others', async () => {
    const fates = await Promise.all(['1', '1', '2'].map(fatesOf));
    expect(fates[0]).toEqual(fates[1]);
    expect(fates[0]).not.toEqual(fates[2]);
    const errors = fates[0]?.filter((status) => status !== 200).length;
    expect(errors).toBeGreaterThan(35);
    expect(errors).toBeLessThan(65);
  });

  async function fatesOf(seed: string): Promise<number[]> {
    const chaos = { rates: { ...CALM, error: 0.5 } };
    const chancy = await TestMint.start({ seed, switches: { chaos } });
    const statuses: number[] = [];
    while (statuses.length < 100) {
      statuses.push((await fetch(`${chancy.url}/v1/keysets`)).status);
    }
    await chancy.close();
    return statuses;
  }
});

test('a quote is issued without its proofs: pending for a while, and only when it is paid', async () => {
  mint.switches.issuePauseMs = 20;
  const { quote, request } = await createQuote();
  const stateOf = () => mint.quotes.get(quote)?.state;
  await expect(mint.issue(quote)).rejects.toThrow('quote_unpaid');
  expect(mint.pay(request)).toMatchObject({ id: quote, state: 'PAID' });
  const issued = mint.issue(quote);
  expect(stateOf()).toBe('PENDING');
  await issued;
  expect(stateOf()).toBe('ISSUED');
});

test('the mint listens where it is told', async () => {
  const local = await TestMint.start({ host: '::1' });
  const { port: localPort } = new URL(local.url);
  expect(local.url).toBe(`http://[::1]:${localPort}`);
  expect((await fetch(`${local.url}/v1/info`)).status).toBe(200);
  await local.close();
  const before = await TestMint.start();
  await before.close();
  const { port } = new URL(before.url);
  const again = await TestMint.start({ port: Number(port) });
  expect(again.url).toBe(`http://127.0.0.1:${port}`);
  await again.close();
});

interface Answer {
  status: number;
  /** Parsed where it is JSON. */
  body: unknown;
}

interface QuoteAnswer {
  quote: string;
  request: string;
  amount: number;
  expiry: number | null;
}

function order(differing: object): object {
  return { amount: 21, unit: 'sat', ...differing };
}

function expectAnswer(answer: Answer, status: number, body: unknown): void {
  expect(answer.status).toBe(status);
  if (body instanceof RegExp) {
    expect(answer.body).toMatch(body);
  } else {
    expect(answer.body).toMatchObject(body as object);
  }
}

async function get(path: string): Promise<Answer> {
  return readAnswer(await fetch(mint.url + path));
}

async function post(path: string, body: unknown): Promise<Answer> {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return readAnswer(await fetch(mint.url + path, { method: 'POST', body: text }));
}

async function readAnswer(response: Response): Promise<Answer> {
  const isJson = response.headers.get('content-type') === 'application/json';
  return { status: response.status, body: await (isJson ? response.json() : response.text()) };
}

async function createQuote(differing: object = {}): Promise<QuoteAnswer> {
  const { status, body } = await post('/v1/mint/quote/bolt11', order(differing));
  expect(status).toBe(200);
  return body as QuoteAnswer;
}

async function readQuote({ quote }: QuoteAnswer): Promise<unknown> {
  return (await get(`/v1/mint/quote/bolt11/${quote}`)).body;
}

function checkBatch(quotes: string[]): Promise<Answer> {
  return post('/v1/mint/quote/bolt11/check', { quotes });
}

async function nuts(): Promise<Record<string, unknown>> {
  return ((await get('/v1/info')).body as { nuts: Record<string, unknown> }).nuts;
}

async function bolt11Method(): Promise<unknown> {
  return ((await nuts())[4] as { methods: unknown[] }).methods[0];
}

async function loadedWallet(): Promise<Wallet> {
  const wallet = new Wallet(mint.url, { unit: 'sat' });
  await wallet.loadMint();
  return wallet;
}
