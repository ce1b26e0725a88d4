import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ChaosRates } from '../../demo/test-mint/chaos.ts';
import type { TestMintSwitches } from '../../demo/test-mint/switches.ts';
import { TestMint } from '../../demo/test-mint.ts';

/** What a real mint does that a well-behaved one does not. */

const START = Date.UTC(2026, 10, 21);
const PUBKEY = '0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798';
const CREATE = '/v1/mint/quote/bolt11';
const CHECK = '/v1/mint/quote/bolt11/check';

let now: number;
let mint: TestMint;

beforeEach(async () => {
  now = START;
  mint = await TestMint.start({ now: () => now });
});

afterEach(() => mint.close());

it('reports a quote with these fields', async () => {
  const created = await createQuote();
  expect(created).toEqual({
    quote: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}$/),
    request: expect.stringMatching(/^lnbc/),
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
  const paid = { ...created, amount_paid: 21, updated_at: START / 1000 + 2, state: 'PAID' };
  expect(await readQuote(created)).toEqual(paid);
  expect((await post(CHECK, { quotes: [created.quote] })).body).toEqual([paid]);
});

it.each<[Partial<TestMintSwitches>, object]>([
  [{}, { 4: { disabled: false }, 9: {}, 17: {}, 20: { supported: true } }],
  [{ minAmountSat: 3, maxAmountSat: 7 }, { 4: { methods: [{ min_amount: 3, max_amount: 7 }] } }],
  [{ descriptionHash: true }, { 4: { methods: [{ options: { description_hash: true } }] } }],
  [{ style: 'cdk' }, { 4: { methods: [{ description: true }] } }],
  [{ locking: false }, { 20: { supported: false } }],
  [{ echoPubkey: false }, { 20: { supported: true } }],
  [{ maxBatchSize: 77 }, { 29: { max_batch_size: 77 } }],
])('advertises, with %j, %j', async (switches, nuts) => {
  Object.assign(mint.switches, switches);
  expect((await get('/v1/info')).body).toMatchObject({ nuts });
});

it.each<[Partial<TestMintSwitches>, string]>([
  [{ batch: 'unadvertised' }, '29'],
  [{ socket: false }, '17'],
  [{ restore: false }, '9'],
])('does not advertise, with %j, NUT-%s', async (switches, nut) => {
  Object.assign(mint.switches, switches);
  expect((await get('/v1/info')).body).not.toHaveProperty(['nuts', nut]);
});

it.each<[Partial<TestMintSwitches>, string, object, number, object]>([
  [{}, CREATE, order({ amount: 0 }), 400, { code: 11006 }],
  [{ maxAmountSat: 20 }, CREATE, order({}), 400, { code: 11006 }],
  [{ mintDisabled: true }, CREATE, order({}), 400, { code: 20003 }],
  [{ description: false }, CREATE, order({ description: 'tea' }), 400, { code: 0 }],
  [
    { refusesWords: { longerThanBytes: 2, status: 500 } },
    CREATE,
    order({ description: 'tea' }),
    500,
    { detail: 'memo not allowed: tea' },
  ],
  [{}, CHECK, { quotes: ['nope'] }, 400, { code: 0, detail: 'quote not found' }],
  [{ style: 'cdk' }, CHECK, { quotes: ['nope'] }, 400, { code: 50000, detail: 'Unknown quote' }],
  [{ style: 'cdk' }, CHECK, { quotes: [] }, 400, { code: 11016 }],
  [{ maxBatchSize: 1 }, CHECK, { quotes: ['a', 'b'] }, 400, { code: 11017 }],
  [{ batch: 'absent' }, CHECK, { quotes: [] }, 404, { detail: 'Not Found' }],
])('answers, with %j, to POST %s %j: %i %j', async (switches, path, body, status, answer) => {
  Object.assign(mint.switches, switches);
  expect(await post(path, body)).toMatchObject({ status, body: answer });
});

it.each<[Partial<TestMintSwitches>, object, object]>([
  [{}, { pubkey: PUBKEY }, { pubkey: PUBKEY }],
  [{ locking: false }, { pubkey: PUBKEY }, { pubkey: null }],
  [{ echoPubkey: false }, { pubkey: PUBKEY }, { pubkey: null }],
  [{ style: 'cdk' }, {}, { method: 'bolt11' }],
  [{ quoteIdStyle: 'base64url' }, {}, { quote: expect.stringMatching(/^[A-Za-z0-9_-]{40}$/) }],
  [{ expirySeconds: 60 }, {}, { expiry: START / 1000 + 60 }],
])('creates a quote, with %j, for %j', async (switches, differing, expected) => {
  Object.assign(mint.switches, switches);
  const created = await createQuote(differing);
  expect(created).toMatchObject(expected);
  expect(await readQuote(created)).toEqual(created);
});

it('omits expiry and pubkey from later answers with dropLaterFacts', async () => {
  mint.switches.dropLaterFacts = true;
  const created = await createQuote({ pubkey: PUBKEY });
  expect(created).toMatchObject({ expiry: START / 1000 + 3600, pubkey: PUBKEY });
  expect(await readQuote(created)).toEqual({ ...created, expiry: null, pubkey: '' });
});

describe('a rate limit', () => {
  it.each([
    // Every request restarts an elastic window; a sliding one admits as many as have left it.
    ['elastic', 60_000, [200, 200, 429, 59_000, 429, 59_000, 429, 60_000, 200, 200, 429]],
    ['elastic', 3_000, [200, 200, 429, 3_000, 200]],
    ['sliding', 3_000, [200, 200, 429, 2_999, 429, 1, 200, 200, 429]],
  ] as const)('with a window that is %s and lasts %i ms: %j', async (window, windowMs, course) => {
    mint.switches.rateLimit = { perMinute: 2, window, windowMs };
    for (const statusOrPause of course) {
      if (statusOrPause === 200 || statusOrPause === 429) {
        expect((await get('/v1/keysets')).status).toBe(statusOrPause);
      } else {
        now += statusOrPause;
      }
    }
    expect((await get('/v1/info')).status).toBe(200);
  });

  it.each([undefined, 7])('sends a Retry-After of %s seconds', async (retryAfterSeconds) => {
    const retryAfter = retryAfterSeconds === undefined ? {} : { retryAfterSeconds };
    mint.switches.rateLimit = { perMinute: 0, ...retryAfter };
    const { headers } = await fetch(`${mint.url}/v1/keysets`);
    expect(headers.get('retry-after')).toBe(retryAfterSeconds?.toString() ?? null);
  });
});

describe('a mint in trouble', () => {
  it('fails and limits the next requests of one route only', async () => {
    mint.failNext('GET /v1/keysets', 2);
    mint.rateLimitNext('GET /v1/keysets');
    const statuses: number[] = [(await get('/v1/keys')).status];
    while (statuses.length < 5) {
      statuses.push((await get('/v1/keysets')).status);
    }
    expect(statuses).toEqual([200, 500, 500, 429, 200]);
    expect(mint.requestCounts['GET /v1/keysets']).toBe(4);
  });

  it('delays answers, and ends delayed ones when it closes', async () => {
    mint.switches.delayMs = 30;
    const startedAt = performance.now();
    expect((await get('/v1/keysets')).status).toBe(200);
    expect(performance.now() - startedAt).toBeGreaterThan(28);
    mint.switches.delayMs = 60_000;
    const delayed = expect(get('/v1/info')).rejects.toThrow('fetch failed');
    await expect.poll(() => mint.requestCounts['GET /v1/info']).toBe(1);
    await mint.close();
    await delayed;
  });

  it('never answers when it is dead', async () => {
    mint.switches.dead = true;
    const signal = AbortSignal.timeout(50);
    await expect(fetch(`${mint.url}/v1/info`, { signal })).rejects.toThrow('timeout');
  });
});

describe('chaos', () => {
  it.each<[keyof ChaosRates, number | string, number]>([
    ['error', 500, 0],
    ['rateLimit', 429, 0],
    ['bareRateLimit', 429, 0],
    ['cutBefore', 'fetch failed', 0],
    ['silence', 'timeout', 0],
    ['cutAfter', 'fetch failed', 1],
    ['silenceAfter', 'timeout', 1],
    ['garbage', 'JSON', 1],
    ['late', 200, 1],
  ])('with %s answers a request with %s and creates %i quotes', async (fault, answer, quotes) => {
    mint.switches.chaos = { rates: { [fault]: 1 } };
    const signal = AbortSignal.timeout(fault.startsWith('silence') ? 100 : 10_000);
    const body = JSON.stringify(order({}));
    const asked = fetch(mint.url + CREATE, { method: 'POST', body, signal });
    const outcome = asked.then(async (response) => {
      await response.json();
      return response.status;
    });
    expect(await outcome.catch((error: Error) => error.message)).toEqual(
      typeof answer === 'number' ? answer : expect.stringContaining(answer),
    );
    expect(mint.quotes.size).toBe(quotes);
    expect(mint.chaosCounts[fault]).toBe(1);
  });

  it('with shuffledBatch sends every answer, in another order and some twice', async () => {
    const ids: string[] = [];
    while (ids.length < 30) {
      ids.push((await createQuote()).quote);
    }
    mint.switches.chaos = { rates: { shuffledBatch: 1 } };
    const { body } = await post(CHECK, { quotes: ids });
    const answered = (body as QuoteAnswer[]).map(({ quote }) => quote);
    expect(new Set(answered)).toEqual(new Set(ids));
    expect(answered.length).toBeGreaterThan(ids.length);
    expect([...new Set(answered)]).not.toEqual(ids);
  });

  it('repeats itself with the same seed, and can differ by route', async () => {
    const [first, second, other] = await Promise.all(['1', '1', '2'].map(statusesOf));
    expect(first).toEqual(second);
    expect(first).not.toEqual(other);
    expect(first?.filter((status) => status !== 200).length).toBeGreaterThan(35);
  });

  async function statusesOf(seed: string): Promise<number[]> {
    const ratesByRoute = { 'GET /v1/keysets': { error: 0.5 } };
    const chaos = { rates: { error: 0 }, ratesByRoute };
    const chancy = await TestMint.start({ seed, switches: { chaos } });
    const statuses: number[] = [];
    while (statuses.length < 100) {
      statuses.push((await fetch(`${chancy.url}/v1/keysets`)).status);
    }
    await chancy.close();
    return statuses;
  }
});

interface QuoteAnswer {
  quote: string;
  request: string;
}

function order(differing: object): object {
  return { amount: 21, unit: 'sat', ...differing };
}

async function get(path: string): Promise<{ status: number; body: unknown }> {
  const response = await fetch(mint.url + path);
  return { status: response.status, body: await response.json() };
}

async function post(path: string, body: object): Promise<{ status: number; body: unknown }> {
  const response = await fetch(mint.url + path, { method: 'POST', body: JSON.stringify(body) });
  return { status: response.status, body: await response.json() };
}

async function createQuote(differing: object = {}): Promise<QuoteAnswer> {
  return (await post(CREATE, order(differing))).body as QuoteAnswer;
}

async function readQuote({ quote }: QuoteAnswer): Promise<unknown> {
  return (await get(`${CREATE}/${quote}`)).body;
}
