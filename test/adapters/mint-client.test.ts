import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { TestMintSwitches } from '../../demo/test-mint/switches.ts';
import { TestMint } from '../../demo/test-mint.ts';
import type { InvoiceDescription } from '../../src/domain/invoice-description.ts';
import { MintClient } from '../../src/mint/mint-client.ts';
import { GuardedFetch } from '../../src/net/guarded-fetch.ts';
import { invoiceField } from '../helpers/invoice-field.ts';

const NOW = Date.parse('2026-11-21T10:00:00Z');
const PUBKEY = '0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798';
const UNKNOWN_ID = '0192f0c0-0000-7000-8000-000000000000';

let guarded: GuardedFetch;
let client: MintClient;
const cleanups: (() => unknown)[] = [];

beforeEach(() => {
  guarded = new GuardedFetch({ allowPrivateNetworks: true });
  client = new MintClient({ fetch: guarded, clock: () => NOW });
});
afterEach(async () => {
  await guarded.close();
  await Promise.all(cleanups.splice(0).map((cleanup) => cleanup()));
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

  it('creates a locked quote and tells the lock that the mint confirmed', async () => {
    const mint = await startMint({ style });
    const answer = await client.createQuote(mint.url, { amountSat: 21, pubkey: PUBKEY });
    expect(answer).toMatchObject({ outcome: 'created', quote: { pubkey: PUBKEY } });
  });

  it('tells where the mint did not confirm the lock', async () => {
    const mint = await startMint({ style, echoPubkey: false });
    const answer = await client.createQuote(mint.url, { amountSat: 21, pubkey: PUBKEY });
    expect(answer).toMatchObject({ outcome: 'created', quote: { pubkey: null } });
  });

  it('creates a quote whose invoice says what it should', async () => {
    const mint = await startMint({ style });
    const description = 'Für dich, αγάπη 🥜';
    const { request } = await created(mint, 21, { description });
    expect(invoiceField(request, 'description')).toBe(description);
  });

  it('creates a quote whose invoice carries a hash', async () => {
    const mint = await startMint({ style, descriptionHash: true });
    const descriptionHash = createHash('sha256').update('metadata').digest('hex');
    const { request } = await created(mint, 21, { descriptionHash });
    expect(invoiceField(request, 'description_hash')).toBe(descriptionHash);
    expect(invoiceField(request, 'description')).toBeUndefined();
  });

  it('tells what the mint says when it refuses a quote', async () => {
    const mint = await startMint({ style, maxAmountSat: 10 });
    const answer = await client.createQuote(mint.url, { amountSat: 11 });
    expect(answer).toMatchObject({ outcome: 'refused', status: 400 });
    expect(answer.outcome === 'refused' && answer.detail).not.toBe('');
  });

  it('reads a quote before and after its payment', async () => {
    const mint = await startMint({ style, dropLaterFacts: true });
    const { quoteId, request } = await created(mint, 21);
    expect(await client.readQuote(mint.url, quoteId)).toEqual({
      outcome: 'found',
      observation: { quoteId, state: 'UNPAID', amountSat: 21, request },
    });
    mint.pay(request);
    expect(await client.readQuote(mint.url, quoteId)).toMatchObject({
      outcome: 'found',
      observation: { state: 'PAID' },
    });
  });

  it('tells a quote that the mint does not know from a mint in trouble', async () => {
    const mint = await startMint({ style });
    expect(await client.readQuote(mint.url, UNKNOWN_ID)).toEqual({ outcome: 'not_found' });
    mint.failNext('GET /v1/mint/quote/bolt11/:id');
    expect(await client.readQuote(mint.url, UNKNOWN_ID)).toEqual({
      outcome: 'unavailable',
      reason: 'status 500',
    });
  });

  it('checks many quotes at once, each asked for once', async () => {
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

  it('tells that a batch with an unknown id was refused as a whole', async () => {
    const mint = await startMint({ style });
    const { quoteId } = await created(mint, 1);
    const answer = await client.checkQuotes(mint.url, [quoteId, UNKNOWN_ID]);
    expect(answer).toMatchObject({ outcome: 'refused', status: 400 });
  });

  it('tells that the mint has no batch check', async () => {
    const mint = await startMint({ style, batch: 'absent' });
    const { quoteId } = await created(mint, 1);
    expect(await client.checkQuotes(mint.url, [quoteId])).toEqual({ outcome: 'unsupported' });
  });

  it('reads what the mint can do', async () => {
    const mint = await startMint({ style, maxAmountSat: 500_000, maxBatchSize: 77 });
    expect(await client.readInfo(mint.url)).toMatchObject({
      outcome: 'found',
      info: { mintsBolt11Sat: true, maxAmountSat: 500_000, batchCheck: { maxBatchSize: 77 } },
    });
  });

  it.each([
    [{ description: false }, { takesDescription: false, takesDescriptionHash: false }],
    [{ description: true }, { takesDescription: true, takesDescriptionHash: false }],
    [{ descriptionHash: true }, { takesDescription: true, takesDescriptionHash: true }],
  ])('reads what the mint takes to say, with %j', async (switches, info) => {
    const mint = await startMint({ style, ...switches });
    expect(await client.readInfo(mint.url)).toMatchObject({ outcome: 'found', info });
  });
});

describe('a mint that is not at its best', () => {
  it.each([
    [undefined, null],
    ['30', 30_000],
    ['Sat, 21 Nov 2026 10:00:20 GMT', 20_000],
  ])('wants to be left alone, for Retry-After %j', async (header, retryAfterMs) => {
    const mintUrl = await serve((_request, response) => {
      response.writeHead(429, header === undefined ? {} : { 'retry-after': header });
      response.end('{"detail": "Rate limit exceeded."}');
    });
    const expected = { outcome: 'rate_limited', retryAfterMs };
    expect(await client.createQuote(mintUrl, { amountSat: 1 })).toEqual(expected);
    expect(await client.readQuote(mintUrl, 'a')).toEqual(expected);
    expect(await client.checkQuotes(mintUrl, ['a'])).toEqual(expected);
    expect(await client.readInfo(mintUrl)).toEqual(expected);
  });

  it('is unavailable when nothing listens there', async () => {
    const mint = await startMint();
    await mint.close();
    cleanups.splice(0);
    const expected = { outcome: 'unavailable', reason: 'connection refused', isUnsent: true };
    expect(await client.createQuote(mint.url, { amountSat: 1 })).toEqual(expected);
    expect(await client.readQuote(mint.url, 'secret-id')).toEqual(expected);
  });

  it.each([301, 408, 500, 502, 503])('is unavailable with status %i', async (status) => {
    const mintUrl = await serve((_request, response) => {
      response.writeHead(status, { location: '/elsewhere' }).end('<html>');
    });
    const expected = { outcome: 'unavailable', reason: `status ${status}` };
    expect(await client.createQuote(mintUrl, { amountSat: 1 })).toEqual(expected);
    expect(await client.readQuote(mintUrl, 'a')).toEqual(expected);
    expect(await client.checkQuotes(mintUrl, ['a'])).toEqual(expected);
    expect(await client.readInfo(mintUrl)).toEqual(expected);
  });

  it.each([401, 402, 403, 406, 418, 451])(
    'or what stands before it turns us away with %i, and that is not for what was asked',
    async (status) => {
      const mintUrl = await serve((_request, response) => {
        response.writeHead(status, { 'content-type': 'text/html' }).end('<html>Access denied');
      });
      const expected = { outcome: 'unavailable', reason: `status ${status}` };
      expect(await client.checkQuotes(mintUrl, ['a', 'b'])).toEqual(expected);
      expect(await client.readQuote(mintUrl, 'a')).toEqual(expected);
      expect(await client.readInfo(mintUrl)).toEqual(expected);
    },
  );

  it.each([
    [400, 'quote not found', 'refused'],
    [400, 'too many quotes', 'refused'],
    [404, 'quote not found', 'refused'],
    [422, 'value is not a valid string', 'refused'],
    [404, 'Not Found', 'unsupported'],
    [405, 'Method Not Allowed', 'unsupported'],
    [403, 'quote not found', 'unavailable'],
  ])('says of a batch %i "%s", which means: %s', async (status, detail, outcome) => {
    const mintUrl = await serve((_request, response) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ detail }));
    });
    expect(await client.checkQuotes(mintUrl, ['a', 'b'])).toMatchObject({ outcome });
  });

  it.each(['<html>', '', 'null', '7', '"text"', '{}', '{"quote": 7}'])(
    'makes no sense when it answers %j',
    async (body) => {
      const mintUrl = await serve((_request, response) => response.end(body));
      const expected = { outcome: 'unavailable', reason: 'unexpected answer' };
      expect(await client.createQuote(mintUrl, { amountSat: 1 })).toEqual(expected);
      expect(await client.readQuote(mintUrl, 'a')).toEqual(expected);
      expect(await client.checkQuotes(mintUrl, ['a'])).toEqual(expected);
      expect(await client.readInfo(mintUrl)).toEqual({ outcome: 'invalid' });
    },
  );

  it('is no mint when it says 404 to the question what it can do', async () => {
    const mintUrl = await serve((_request, response) => response.writeHead(404).end('Not found'));
    expect(await client.readInfo(mintUrl)).toEqual({ outcome: 'invalid' });
  });

  it('does not turn every quote unknown with a misplaced 404', async () => {
    const mintUrl = await serve((_request, response) => {
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"detail":"Not Found"}');
    });
    expect(await client.readQuote(mintUrl, 'a')).toEqual({
      outcome: 'unavailable',
      reason: 'status 404',
    });
  });
});

describe('an answer to the creation of a quote', () => {
  const GOOD = { quote: 'id', request: 'lnbc1', amount: 1, unit: 'sat', state: 'UNPAID' };

  it.each([
    ['expiry 0', { expiry: 0 }, { expiry: 0 }],
    ['expiry null', { expiry: null }, { expiry: null }],
    ['no expiry', {}, { expiry: null }],
    ['an expiry in text', { expiry: '1795226198' }, { expiry: null }],
    ['no amount', { amount: null }, { amountSat: null }],
    ['an amount beyond what is exact', { amount: 2.1e18 }, { amountSat: null }],
    ['an empty pubkey', { pubkey: '' }, { pubkey: null }],
    ['a pubkey in upper case', { pubkey: PUBKEY.toUpperCase() }, { pubkey: PUBKEY }],
    ['no unit', { unit: undefined }, { quoteId: 'id' }],
    ['fields that we do not know', { method: 'bolt11', more: [1] }, { quoteId: 'id' }],
    ['the longest id', { quote: 'x'.repeat(256) }, { quoteId: 'x'.repeat(256) }],
  ])('is taken with %s', async (_what, fields, expected) => {
    const mintUrl = await serve(json({ ...GOOD, ...fields }));
    expect(await client.createQuote(mintUrl, { amountSat: 1 })).toMatchObject({
      outcome: 'created',
      quote: expected,
    });
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
  ])('is not taken with %s', async (_what, fields) => {
    const mintUrl = await serve(json({ ...GOOD, ...fields }));
    expect(await client.createQuote(mintUrl, { amountSat: 1 })).toEqual({
      outcome: 'unavailable',
      reason: 'unexpected answer',
    });
  });
});

describe('what goes to a mint', () => {
  it('is an integer amount, and what else was given', async () => {
    const bodies: string[] = [];
    const mintUrl = await serve((_request, response, body) => {
      bodies.push(body);
      response.writeHead(400).end();
    });
    await client.createQuote(mintUrl, { amountSat: 21 });
    await client.createQuote(mintUrl, { amountSat: 21, pubkey: PUBKEY });
    await client.createQuote(mintUrl, { amountSat: 21, description: 'tea' });
    await client.createQuote(mintUrl, { amountSat: 21, descriptionHash: 'ab'.repeat(32) });
    expect(bodies).toEqual([
      '{"amount":21,"unit":"sat"}',
      `{"amount":21,"unit":"sat","pubkey":"${PUBKEY}"}`,
      '{"amount":21,"unit":"sat","description":"tea"}',
      `{"amount":21,"unit":"sat","description_hash":"${'ab'.repeat(32)}"}`,
    ]);
  });

  it('goes below the path of its url, with the id as one part of it', async () => {
    const paths: string[] = [];
    const origin = await serve((request, response) => {
      paths.push(`${request.method} ${request.url}`);
      response.writeHead(400).end();
    });
    const mintUrl = `${origin}/Bitcoin`;
    await client.createQuote(mintUrl, { amountSat: 1 });
    await client.readQuote(mintUrl, 'a/b?c#d%');
    await client.checkQuotes(mintUrl, ['a']);
    await client.readInfo(mintUrl);
    expect(paths).toEqual([
      'POST /Bitcoin/v1/mint/quote/bolt11',
      'GET /Bitcoin/v1/mint/quote/bolt11/a%2Fb%3Fc%23d%25',
      'POST /Bitcoin/v1/mint/quote/bolt11/check',
      'GET /Bitcoin/v1/info',
    ]);
  });

  it('is nothing for ids that are none', async () => {
    const paths: string[] = [];
    const mintUrl = await serve((request, response) => {
      paths.push(request.url ?? '');
      response.end('[]');
    });
    expect(await client.readQuote(mintUrl, '..')).toEqual({ outcome: 'not_found' });
    expect(await client.checkQuotes(mintUrl, ['', '\ud800'])).toEqual({
      outcome: 'found',
      observations: [],
    });
    expect(paths).toEqual([]);
  });
});

describe('what a mint says of a quote', () => {
  it('is not taken for another quote', async () => {
    const mintUrl = await serve(json({ quote: 'other', state: 'PAID' }));
    expect(await client.readQuote(mintUrl, 'mine')).toEqual({
      outcome: 'unavailable',
      reason: 'unexpected answer',
    });
  });

  it('is matched by id in a batch, whatever the order and the company', async () => {
    const mintUrl = await serve(
      json([
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
    ['is taken if it comes twice', 2, { outcome: 'found' }],
    ['is not parsed if it comes more often', 3, { outcome: 'unavailable' }],
  ])('%s in a batch', async (_what, times, expected) => {
    const mintUrl = await serve(json(Array(times).fill({ quote: 'a', state: 'PAID' })));
    expect(await client.checkQuotes(mintUrl, ['a'])).toMatchObject(expected);
  });
});

async function startMint(switches: Partial<TestMintSwitches> = {}): Promise<TestMint> {
  const mint = await TestMint.start({ switches });
  cleanups.push(() => mint.close());
  return mint;
}

async function created(mint: TestMint, amountSat: number, words: InvoiceDescription = {}) {
  const answer = await client.createQuote(mint.url, { amountSat, ...words });
  if (answer.outcome !== 'created') {
    throw new Error(`no quote: ${JSON.stringify(answer)}`);
  }
  return answer.quote;
}

type Handler = (request: IncomingMessage, response: ServerResponse, body: string) => void;

/** A server that answers each request, once it has read it. */
async function serve(handler: Handler): Promise<string> {
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', () => handler(request, response, body));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanups.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function json(body: unknown): Handler {
  return (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
}
