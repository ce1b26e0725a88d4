import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { MintClient } from '../../src/mints/mint-client.ts';
import { GuardedFetch } from '../../src/net/guarded-fetch.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { listenOnLoopback } from '../helpers/network/loopback-server.ts';

const NOW_MS = Date.parse('2026-11-21T10:00:00Z');
const PUBKEY = '0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798';
const UNKNOWN_QUOTE_ID = '0192f0c0-0000-7000-8000-000000000000';

let client: MintClient;

beforeEach(() => {
  const fetch = new GuardedFetch({ allowPrivateNetworks: true });
  client = new MintClient({ fetch, clock: () => NOW_MS });
  return () => fetch.close();
});

describe.each(['nutshell', 'cdk'] as const)('MintClient with a mint like %s', (style) => {
  it.each([
    ['the public key that the mint echoes', true, PUBKEY],
    ['no public key if the mint echoes none', false, null],
  ])('returns %s', async (_case, shouldEchoPubkey, pubkey) => {
    const mint = await startTestMint({ style, shouldEchoPubkey });
    const result = await client.createQuote(mint.url, { amountSat: 21, pubkey: PUBKEY });
    expect(result).toMatchObject({ outcome: 'created', quote: { pubkey } });
  });

  it("returns the mint's message if it rejects a quote", async () => {
    const mint = await startTestMint({ style, maxAmountSat: 10 });
    const result = await client.createQuote(mint.url, { amountSat: 11 });
    expect(result).toMatchObject({ outcome: 'rejected', status: 400 });
    expect(result.outcome === 'rejected' && result.detail).not.toBe('');
  });

  it('distinguishes an unknown quote from a failing mint', async () => {
    const mint = await startTestMint({ style });
    expect(await client.readQuote(mint.url, UNKNOWN_QUOTE_ID)).toEqual({ outcome: 'not_found' });
    mint.failNext('GET /v1/mint/quote/bolt11/:id');
    expect(await client.readQuote(mint.url, UNKNOWN_QUOTE_ID)).toEqual({
      ...unavailable('unexpected status'),
      status: 500,
    });
  });
});

describe('MintClient at a failing mint', () => {
  it.each([
    [undefined, null],
    ['30', 30_000],
    ['Sat, 21 Nov 2026 10:00:20 GMT', 20_000],
  ])('returns rate_limited after a 429 with Retry-After %j', async (header, retryAfterMs) => {
    const headers = header === undefined ? {} : { 'retry-after': header };
    const mintUrl = await startServerWithResponse(
      '{"detail": "Rate limit exceeded."}',
      429,
      headers,
    );
    expect(await sendAllRequests(mintUrl)).toEqual(
      Array(4).fill({ outcome: 'rate_limited', retryAfterMs }),
    );
  });

  it.each([301, 408, 500, 502, 503])('returns unavailable for status %i', async (status) => {
    const mintUrl = await startServerWithResponse('<html>', status, { location: '/elsewhere' });
    expect(await sendAllRequests(mintUrl)).toEqual(
      Array(4).fill({ ...unavailable('unexpected status'), status }),
    );
  });

  it.each([401, 402, 403, 406, 418, 451])(
    'returns unavailable for every read if the mint or its proxy rejects the client with %i',
    async (status) => {
      const mintUrl = await startServerWithResponse('<html>Access denied', status);
      const [, ...readResults] = await sendAllRequests(mintUrl);
      expect(readResults).toEqual(Array(3).fill({ ...unavailable('unexpected status'), status }));
    },
  );

  it.each([
    [400, 'quote not found', 'rejected'],
    [404, 'quote not found', 'rejected'],
    [422, 'value is not a valid string', 'rejected'],
    [404, 'Not Found', 'unsupported'],
    [403, 'quote not found', 'unavailable'],
  ])('interprets a batch response %i "%s" as %s', async (status, detail, outcome) => {
    const mintUrl = await startServerWithResponse(JSON.stringify({ detail }), status);
    expect(await client.checkQuotes(mintUrl, ['a', 'b'])).toMatchObject({ outcome });
  });

  it.each(['<html>', '', 'null', '7', '"text"', '{}', '{"quote": 7}'])(
    'returns unavailable (invalid for the mint info) for the response body %j',
    async (body) => {
      const unexpected = unavailable('unexpected response');
      expect(await sendAllRequests(await startServerWithResponse(body))).toEqual([
        ...Array(3).fill(unexpected),
        { outcome: 'invalid' },
      ]);
    },
  );

  it('reads an info of one megabyte, for example with an embedded icon', async () => {
    const nuts = { 4: { methods: [{ method: 'bolt11', unit: 'sat' }], disabled: false } };
    const iconUrl = `data:image/png;base64,${'A'.repeat(1024 * 1024 - 150)}`;
    const mintUrl = await startServerWithResponse(JSON.stringify({ icon_url: iconUrl, nuts }));
    expect(await client.readInfo(mintUrl)).toMatchObject({ outcome: 'found' });
  });

  it('does not treat a 404 for a missing route as an unknown quote', async () => {
    const mintUrl = await startServerWithResponse('{"detail":"Not Found"}', 404);
    expect(await client.readQuote(mintUrl, 'a')).toEqual({
      ...unavailable('unexpected status'),
      status: 404,
    });
    expect(await client.readInfo(mintUrl)).toEqual({ outcome: 'invalid' });
  });
});

describe('MintClient.createQuote', () => {
  const VALID_QUOTE = { quote: 'id', request: 'lnbc1', amount: 1, unit: 'sat', state: 'UNPAID' };

  it.each([
    ['expiry 0', { expiry: 0 }, { expiry: 0 }],
    ['expiry null', { expiry: null }, { expiry: null }],
    ['no expiry', {}, { expiry: null }],
    ['whole numbers as text', { amount: '1', expiry: '1795226198' }, { expiry: 1795226198 }],
    ['an expiry that is not a whole number', { expiry: '2026-11-21' }, { expiry: null }],
    ['no state', { state: undefined }, { state: null }],
    ['no amount', { amount: null }, { amountSat: null }],
    ['an amount that is not exact', { amount: 2.1e18 }, { amountSat: null }],
    ['a pubkey in upper case', { pubkey: PUBKEY.toUpperCase() }, { pubkey: PUBKEY }],
    ['an id of 256 characters', { quote: 'x'.repeat(256) }, { quoteId: 'x'.repeat(256) }],
  ])('accepts a quote with %s', async (_case, fields, quote) => {
    const mintUrl = await startServerWithResponse(JSON.stringify({ ...VALID_QUOTE, ...fields }));
    const result = await client.createQuote(mintUrl, { amountSat: 1 });
    expect(result).toMatchObject({ outcome: 'created', quote });
  });

  it.each([
    ['another unit', { unit: 'usd' }],
    ['no request', { request: '' }],
    ['a request of 10,000 characters', { request: 'x'.repeat(10_000) }],
    ['no id', { quote: '' }],
    ['an id of 257 characters', { quote: 'x'.repeat(257) }],
    ['an id that is a lone surrogate', { quote: '\ud800' }],
    ['the path segment .. as id', { quote: '..' }],
  ])('returns unavailable for a quote with %s', async (_case, fields) => {
    const mintUrl = await startServerWithResponse(JSON.stringify({ ...VALID_QUOTE, ...fields }));
    const result = await client.createQuote(mintUrl, { amountSat: 1 });
    expect(result).toEqual(unavailable('unexpected response'));
  });
});

describe('MintClient requests', () => {
  it('sends an integer amount and only the given fields', async () => {
    const bodies: string[] = [];
    const mintUrl = await startServer((_request, response, body) => {
      bodies.push(body);
      response.writeHead(400).end();
    });
    const hash = 'ab'.repeat(32);
    for (const fields of [
      {},
      { pubkey: PUBKEY },
      { description: 'tea' },
      { descriptionHash: hash },
    ]) {
      await client.createQuote(mintUrl, { amountSat: 21, ...fields });
    }
    expect(bodies).toEqual([
      '{"amount":21,"unit":"sat"}',
      `{"amount":21,"unit":"sat","pubkey":"${PUBKEY}"}`,
      '{"amount":21,"unit":"sat","description":"tea"}',
      `{"amount":21,"unit":"sat","description_hash":"${hash}"}`,
    ]);
  });

  it("appends the route to the mint's path and encodes the quote id as one path segment", async () => {
    const paths: string[] = [];
    const origin = await startServer((request, response) => {
      paths.push(`${request.method} ${request.url}`);
      response.writeHead(400).end();
    });
    await sendAllRequests(`${origin}/Bitcoin`, 'a/b?c#d%');
    expect(paths).toEqual([
      'POST /Bitcoin/v1/mint/quote/bolt11',
      'GET /Bitcoin/v1/mint/quote/bolt11/a%2Fb%3Fc%23d%25',
      'POST /Bitcoin/v1/mint/quote/bolt11/check',
      'GET /Bitcoin/v1/info',
    ]);
  });
});

describe('MintClient.readQuote and MintClient.checkQuotes', () => {
  it('does not attribute a state to another quote', async () => {
    const mintUrl = await startServerWithResponse(
      JSON.stringify({ quote: 'other', state: 'PAID' }),
    );
    expect(await client.readQuote(mintUrl, 'mine')).toEqual(unavailable('unexpected response'));
  });

  it('matches the states in a batch by id, in any order and among malformed entries', async () => {
    const mintUrl = await startServerWithResponse(
      JSON.stringify([
        { quote: 'c', state: 'PENDING', amount_paid: 0, amount_issued: 0 },
        { quote: 'not-requested', state: 'PAID' },
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
  ])('treats a batch response that repeats one state %i times as %s', async (times, outcome) => {
    const states = Array(times).fill({ quote: 'a', state: 'PAID' });
    const mintUrl = await startServerWithResponse(JSON.stringify(states));
    expect(await client.checkQuotes(mintUrl, ['a'])).toMatchObject({ outcome });
  });
});

function unavailable(reason: string) {
  return { outcome: 'unavailable', reason };
}

async function sendAllRequests(mintUrl: string, quoteId = 'a'): Promise<object[]> {
  return [
    await client.createQuote(mintUrl, { amountSat: 1 }),
    await client.readQuote(mintUrl, quoteId),
    await client.checkQuotes(mintUrl, [quoteId, 'b']),
    await client.readInfo(mintUrl),
  ];
}

type Handler = (request: IncomingMessage, response: ServerResponse, body: string) => void;

async function startServer(handler: Handler): Promise<string> {
  const server = createServer((request, response) => {
    void text(request).then((body) => handler(request, response, body));
  });
  const { url, close } = await listenOnLoopback(server);
  onTestFinished(close);
  return url;
}

function startServerWithResponse(
  body: string,
  status = 200,
  headers: Record<string, string> = {},
): Promise<string> {
  return startServer((_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
  });
}
