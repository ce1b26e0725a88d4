import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import { type InvoiceDescription, MintClient } from '../../src/mints/mint-client.ts';
import { GuardedFetch } from '../../src/net/guarded-fetch.ts';
import { readInvoiceField } from '../helpers/invoice-field.ts';
import { listenOnLoopback } from '../helpers/loopback-server.ts';
import { startMint } from '../helpers/start-test-mint.ts';

const NOW = Date.parse('2026-11-21T10:00:00Z');
const PUBKEY = '0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798';
const UNKNOWN_ID = '0192f0c0-0000-7000-8000-000000000000';

let client: MintClient;

beforeEach(() => {
  const fetch = new GuardedFetch({ allowPrivateNetworks: true });
  client = new MintClient({ fetch, clock: () => NOW });
  return () => fetch.close();
});

describe.each(['nutshell', 'cdk'] as const)('with a mint like %s', (style) => {
  it('creates a quote', async () => {
    const mint = await startMint({ style });
    const quote = await created(mint, 21);
    expect(quote).toMatchObject({ amountSat: 21, pubkey: null });
    expect(quote.request).toMatch(/^lnbc/);
    expect(quote.expiry).toBeGreaterThan(Date.now() / 1000);
    expect([...mint.quotes.keys()]).toEqual([quote.quoteId]);
  });

  it.each([
    [true, PUBKEY],
    [false, null],
  ])('returns the lock that the mint confirmed, with echoPubkey %s', async (echoPubkey, pubkey) => {
    const mint = await startMint({ style, shouldEchoPubkey: echoPubkey });
    const answer = await client.createQuote(mint.url, { amountSat: 21, pubkey: PUBKEY });
    expect(answer).toMatchObject({ outcome: 'created', quote: { pubkey } });
  });

  it('creates a quote with a description or a description hash', async () => {
    const mint = await startMint({ style, supportsDescriptionHash: true });
    const description = 'Für dich, αγάπη 🥜';
    const { request } = await created(mint, 21, { description });
    expect(readInvoiceField(request, 'description')).toBe(description);
    const descriptionHash = createHash('sha256').update('metadata').digest('hex');
    const hashed = await created(mint, 21, { descriptionHash });
    expect(readInvoiceField(hashed.request, 'description_hash')).toBe(descriptionHash);
    expect(readInvoiceField(hashed.request, 'description')).toBeUndefined();
  });

  it("returns the mint's message if it rejects a quote", async () => {
    const mint = await startMint({ style, maxAmountSat: 10 });
    const answer = await client.createQuote(mint.url, { amountSat: 11 });
    expect(answer).toMatchObject({ outcome: 'rejected', status: 400 });
    expect(answer.outcome === 'rejected' && answer.detail).not.toBe('');
  });

  it('reads a quote before and after its payment', async () => {
    const mint = await startMint({ style, omitsExpiryAndPubkeyAfterCreation: true });
    const { quoteId, request } = await created(mint, 21);
    const observation = { quoteId, state: 'UNPAID', amountSat: 21, request };
    expect(await client.readQuote(mint.url, quoteId)).toEqual({ outcome: 'found', observation });
    mint.pay(request);
    expect(await client.readQuote(mint.url, quoteId)).toMatchObject({
      observation: { state: 'PAID' },
    });
  });

  it('distinguishes an unknown quote from a failing mint', async () => {
    const mint = await startMint({ style });
    expect(await client.readQuote(mint.url, UNKNOWN_ID)).toEqual({ outcome: 'not_found' });
    mint.failNext('GET /v1/mint/quote/bolt11/:id');
    expect(await client.readQuote(mint.url, UNKNOWN_ID)).toEqual(unavailable('status 500'));
  });

  it('checks many quotes in one batch, each of them once', async () => {
    const mint = await startMint({ style });
    const [first, second] = [await created(mint, 1), await created(mint, 2)];
    mint.pay(second.request);
    const ids = [second.quoteId, first.quoteId, second.quoteId];
    expect(await client.checkQuotes(mint.url, ids)).toMatchObject({
      outcome: 'found',
      observations: [
        { quoteId: second.quoteId, state: 'PAID' },
        { quoteId: first.quoteId, state: 'UNPAID' },
      ],
    });
  });

  it.each([
    ['one id is unknown', 'advertised', { outcome: 'rejected', status: 400 }],
    ['there is no batch route', 'absent', { outcome: 'unsupported' }],
  ] as const)('returns no states from a batch if %s', async (_why, batch, expected) => {
    const mint = await startMint({ style, batch });
    const { quoteId } = await created(mint, 1);
    const answer = await client.checkQuotes(mint.url, [quoteId, UNKNOWN_ID]);
    expect(answer).toMatchObject(expected);
  });

  it("reads the mint's features", async () => {
    const mint = await startMint({ style, maxAmountSat: 500_000, maxBatchSize: 77 });
    expect(await client.readInfo(mint.url)).toMatchObject({
      outcome: 'found',
      info: { supportsBolt11Sat: true, maxAmountSat: 500_000, batchCheck: { maxBatchSize: 77 } },
    });
  });
});

describe('MintClient with a failing mint', () => {
  it.each([
    [undefined, null],
    ['30', 30_000],
    ['Sat, 21 Nov 2026 10:00:20 GMT', 20_000],
  ])('returns rate_limited after a 429 with Retry-After %j', async (header, retryAfterMs) => {
    const headers = header === undefined ? {} : { 'retry-after': header };
    const mintUrl = await serveBody('{"detail": "Rate limit exceeded."}', 429, headers);
    expect(await askAll(mintUrl)).toEqual(Array(4).fill({ outcome: 'rate_limited', retryAfterMs }));
  });

  it('returns unavailable if nothing listens', async () => {
    const mint = await startMint();
    await mint.close();
    const expected = { ...unavailable('connection refused'), isUnsent: true };
    expect(await askAll(mint.url)).toEqual(Array(4).fill(expected));
  });

  it.each([301, 408, 500, 502, 503])('returns unavailable for status %i', async (status) => {
    const mintUrl = await serveBody('<html>', status, { location: '/elsewhere' });
    expect(await askAll(mintUrl)).toEqual(Array(4).fill(unavailable(`status ${status}`)));
  });

  it.each([401, 402, 403, 406, 418, 451])(
    'returns unavailable if the mint or its proxy rejects the client with %i, whatever the ids',
    async (status) => {
      const mintUrl = await serveBody('<html>Access denied', status);
      const [, ...answers] = await askAll(mintUrl);
      expect(answers).toEqual(Array(3).fill(unavailable(`status ${status}`)));
    },
  );

  it.each([
    [400, 'quote not found', 'rejected'],
    [400, 'too many quotes', 'rejected'],
    [404, 'quote not found', 'rejected'],
    [422, 'value is not a valid string', 'rejected'],
    [404, 'Not Found', 'unsupported'],
    [405, 'Method Not Allowed', 'unsupported'],
    [403, 'quote not found', 'unavailable'],
  ])('interprets a batch response %i "%s" as %s', async (status, detail, outcome) => {
    const mintUrl = await serveBody(JSON.stringify({ detail }), status);
    expect(await client.checkQuotes(mintUrl, ['a', 'b'])).toMatchObject({ outcome });
  });

  it.each(['<html>', '', 'null', '7', '"text"', '{}', '{"quote": 7}'])(
    'returns unavailable for the response %j',
    async (body) => {
      const unexpected = unavailable('unexpected response');
      expect(await askAll(await serveBody(body))).toEqual([
        ...Array(3).fill(unexpected),
        { outcome: 'invalid' },
      ]);
    },
  );

  it('does not treat a 404 for the route as an unknown quote', async () => {
    const mintUrl = await serveBody('{"detail":"Not Found"}', 404);
    expect(await client.readQuote(mintUrl, 'a')).toEqual(unavailable('status 404'));
    expect(await client.readInfo(mintUrl)).toEqual({ outcome: 'invalid' });
  });
});

describe('a created quote', () => {
  const GOOD = { quote: 'id', request: 'lnbc1', amount: 1, unit: 'sat', state: 'UNPAID' };

  it.each([
    ['expiry 0', { expiry: 0 }, { expiry: 0 }],
    ['expiry null', { expiry: null }, { expiry: null }],
    ['no expiry', {}, { expiry: null }],
    ['an expiry in text', { expiry: '1795226198' }, { expiry: null }],
    ['no amount', { amount: null }, { amountSat: null }],
    ['an amount that is not exact', { amount: 2.1e18 }, { amountSat: null }],
    ['an empty pubkey', { pubkey: '' }, { pubkey: null }],
    ['a pubkey in upper case', { pubkey: PUBKEY.toUpperCase() }, { pubkey: PUBKEY }],
    ['no unit', { unit: undefined }, { quoteId: 'id' }],
    ['unknown fields', { method: 'bolt11', more: [1] }, { quoteId: 'id' }],
    ['the longest id', { quote: 'x'.repeat(256) }, { quoteId: 'x'.repeat(256) }],
  ])('is accepted with %s', async (_what, fields, quote) => {
    const mintUrl = await serveBody(JSON.stringify({ ...GOOD, ...fields }));
    const answer = await client.createQuote(mintUrl, { amountSat: 1 });
    expect(answer).toMatchObject({ outcome: 'created', quote });
  });

  it.each([
    ['another unit', { unit: 'usd' }],
    ['no request', { request: '' }],
    ['an endless request', { request: 'x'.repeat(10_000) }],
    ['no id', { quote: '' }],
    ['an id that is too long', { quote: 'x'.repeat(257) }],
    ['an id with a space', { quote: 'a b' }],
    ['an id with a control character', { quote: 'a\u0000b' }],
    ['an id that is half a character', { quote: '\ud800' }],
    ['an id that is a folder', { quote: '..' }],
  ])('is rejected with %s', async (_what, fields) => {
    const mintUrl = await serveBody(JSON.stringify({ ...GOOD, ...fields }));
    const answer = await client.createQuote(mintUrl, { amountSat: 1 });
    expect(answer).toEqual(unavailable('unexpected response'));
  });
});

describe('a request to a mint', () => {
  it('has an integer amount and only the given fields', async () => {
    const bodies: string[] = [];
    const mintUrl = await serve((_request, response, body) => {
      bodies.push(body);
      response.writeHead(400).end();
    });
    const hash = 'ab'.repeat(32);
    for (const more of [
      {},
      { pubkey: PUBKEY },
      { description: 'tea' },
      { descriptionHash: hash },
    ]) {
      await client.createQuote(mintUrl, { amountSat: 21, ...more });
    }
    expect(bodies).toEqual([
      '{"amount":21,"unit":"sat"}',
      `{"amount":21,"unit":"sat","pubkey":"${PUBKEY}"}`,
      '{"amount":21,"unit":"sat","description":"tea"}',
      `{"amount":21,"unit":"sat","description_hash":"${hash}"}`,
    ]);
  });

  it("uses the mint's path as prefix and the id as one segment", async () => {
    const paths: string[] = [];
    const origin = await serve((request, response) => {
      paths.push(`${request.method} ${request.url}`);
      response.writeHead(400).end();
    });
    await askAll(`${origin}/Bitcoin`, 'a/b?c#d%');
    expect(paths).toEqual([
      'POST /Bitcoin/v1/mint/quote/bolt11',
      'GET /Bitcoin/v1/mint/quote/bolt11/a%2Fb%3Fc%23d%25',
      'POST /Bitcoin/v1/mint/quote/bolt11/check',
      'GET /Bitcoin/v1/info',
    ]);
  });

  it('is not sent for an invalid id', async () => {
    const nowhere = 'http://127.0.0.1:1';
    expect(await client.readQuote(nowhere, '..')).toEqual({ outcome: 'not_found' });
    const answer = await client.checkQuotes(nowhere, ['', '\ud800']);
    expect(answer).toEqual({ outcome: 'found', observations: [] });
  });
});

describe('a reported state', () => {
  it('is not attributed to another quote', async () => {
    const mintUrl = await serveBody(JSON.stringify({ quote: 'other', state: 'PAID' }));
    expect(await client.readQuote(mintUrl, 'mine')).toEqual(unavailable('unexpected response'));
  });

  it('is matched by id in a batch, in any order and among malformed entries', async () => {
    const mintUrl = await serveBody(
      JSON.stringify([
        { quote: 'c', state: 'PENDING', amount_paid: 0, amount_issued: 0 },
        { quote: 'stranger', state: 'PAID' },
        { quote: 'a', state: 'UNPAID', expiry: null, pubkey: '' },
        { quote: 'd', state: 'NONSENSE' },
        null,
      ]),
    );
    expect(await client.checkQuotes(mintUrl, ['a', 'b', 'c', 'd', 'e'])).toEqual({
      outcome: 'found',
      observations: [
        { quoteId: 'c', state: 'INFLIGHT' },
        { quoteId: 'a', state: 'UNPAID' },
      ],
    });
  });

  it.each([
    [2, 'found'],
    [3, 'unavailable'],
  ])('that a batch contains %i times has the outcome %s', async (times, outcome) => {
    const states = Array(times).fill({ quote: 'a', state: 'PAID' });
    const mintUrl = await serveBody(JSON.stringify(states));
    expect(await client.checkQuotes(mintUrl, ['a'])).toMatchObject({ outcome });
  });
});

function unavailable(reason: string) {
  return { outcome: 'unavailable', reason };
}

/** Returns the results of all four kinds of requests. */
async function askAll(mintUrl: string, quoteId = 'a'): Promise<object[]> {
  return [
    await client.createQuote(mintUrl, { amountSat: 1 }),
    await client.readQuote(mintUrl, quoteId),
    await client.checkQuotes(mintUrl, [quoteId, 'b']),
    await client.readInfo(mintUrl),
  ];
}

async function created(mint: TestMint, amountSat: number, words: InvoiceDescription = {}) {
  const answer = await client.createQuote(mint.url, { amountSat, ...words });
  if (answer.outcome !== 'created') {
    throw new Error(`no quote: ${JSON.stringify(answer)}`);
  }
  return answer.quote;
}

type Handler = (request: IncomingMessage, response: ServerResponse, body: string) => void;

async function serve(handler: Handler): Promise<string> {
  const server = createServer((request, response) => {
    void text(request).then((body) => handler(request, response, body));
  });
  const { url, close } = await listenOnLoopback(server);
  onTestFinished(close);
  return url;
}

function serveBody(
  body: string,
  status = 200,
  headers: Record<string, string> = {},
): Promise<string> {
  return serve((_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
  });
}
