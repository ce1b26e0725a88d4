import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { plainRequest, sendBytes } from '../helpers/plain-http.ts';
import { type ApiAnswer, request, TestWallet } from '../helpers/wallet.ts';
import { openWorld, type World } from '../helpers/world.ts';

/**
 * What goes wrong is said in the way of the path that was asked (spec.md section 7), and in both ways where
 * a request cannot be read that far.
 */

const MINT = '/api/v2/user/mint';

const API_ERROR = { error: true, message: expect.any(String) };
const LNURL_ERROR = { status: 'ERROR', reason: expect.any(String) };
const VERIFY_ERROR = { status: 'ERROR', reason: 'Not found' };
const ERROR_FOR_ANYBODY = { ...API_ERROR, ...LNURL_ERROR };

let world: World;
let wallet: TestWallet;

beforeAll(async () => {
  world = await openWorld();
  wallet = world.newWallet();
});

afterAll(() => world.close());

describe('a body', () => {
  it.each([
    ['is cut off', '{"mint_url":', 'The body is not valid JSON.'],
    ['is no JSON', 'mint_url=http%3A%2F%2Fmint', 'The body is not valid JSON.'],
    ['is empty', '', 'The body is empty; JSON is expected.'],
    ['is null', 'null', 'mint_url: must be a string'],
    ['is an empty object', '{}', 'mint_url: must be a string'],
    ['has the field elsewhere', '{"data":{"mint_url":"x"}}', 'mint_url: must be a string'],
    ['has another type in the field', '{"mint_url":{}}', 'mint_url: must be a string'],
    ['is a list', '[]', 'body: must be a JSON object'],
    ['is a text', '"mint_url"', 'body: must be a JSON object'],
    ['is a number', '7', 'body: must be a JSON object'],
  ])('that %s is refused, and what is wrong named', async (_case, body, message) => {
    const answer = await patchMint(body);
    expectError(answer, 400, { error: true, message });
  });

  it('that reaches for prototypes is refused', async () => {
    for (const body of ['{"__proto__":{"mint_url":"x"}}', '{"constructor":{"prototype":{}}}']) {
      expectError(await patchMint(body), 400, API_ERROR);
    }
  });

  it('that is missing altogether is refused', async () => {
    const headers = { authorization: wallet.sign(MINT, 'PATCH') };
    const answer = await plainRequest(world.base, MINT, { method: 'PATCH', headers });
    expectError(answer, 400, { error: true, message: 'mint_url: must be a string' });
  });

  it('that is too large is refused, announced or not', async () => {
    const body = JSON.stringify({ mint_url: 'x'.repeat(100_000) });
    const message = 'The body is too large.';
    const announced = { 'content-length': String(body.length) };
    const unannounced = { 'transfer-encoding': 'chunked' };
    for (const headers of [announced, unannounced]) {
      expectError(await patchMint(body, headers), 413, { error: true, message });
    }
  });

  it('is read as JSON, whatever it is called', async () => {
    const body = JSON.stringify({ mint_url: world.mint.url, unknown: true });
    for (const type of ['application/json; charset=utf-8', 'text/plain', 'application/cashu']) {
      expect((await patchMint(body, { 'content-type': type })).status, type).toBe(200);
    }
  });

  it('is not looked at before it is known who asks', async () => {
    const answer = await plainRequest(world.base, MINT, { method: 'PATCH', body: '{' });
    expectError(answer, 401, API_ERROR);
  });
});

describe('a path that nobody serves', () => {
  it.each([
    ['/', API_ERROR],
    ['/api/v1/info', API_ERROR],
    ['/api/v2', API_ERROR],
    ['/api/v2/settings', API_ERROR],
    ['/api/v2/wallet/quotes/missing', API_ERROR],
    [`/api/v2/${'x'.repeat(5_000)}`, API_ERROR],
    ['/.well-known/keysend/alice', API_ERROR],
    ['/.well-known/lnurlp', LNURL_ERROR],
    ['/.well-known/lnurlp/alice/more', LNURL_ERROR],
    ['/lnurl/verify', LNURL_ERROR],
    ['/.well-known/nostr.json/more', API_ERROR],
    ['/favicon.ico', API_ERROR],
    ['/../../etc/passwd', API_ERROR],
  ])('%s is a plain 404', async (path, error) => {
    expectError(await plainRequest(world.base, path), 404, error);
  });

  it('is one for a signed request too', async () => {
    for (const path of ['/api/v2/settings', '/api/v2/wallet/quotes/missing']) {
      expectError(await wallet.get(path), 404, { error: true, message: 'Not found.' });
    }
  });

  it.each([
    ['POST', '/api/v2/info', API_ERROR],
    ['DELETE', '/api/v2/user/info', API_ERROR],
    ['GET', '/api/v2/user/mint', API_ERROR],
    ['PROPFIND', '/api/v2/info', API_ERROR],
    ['POST', '/.well-known/lnurlp/alice', LNURL_ERROR],
    ['PUT', `/lnurl/verify/${'0'.repeat(64)}`, LNURL_ERROR],
    ['POST', '/.well-known/nostr.json', API_ERROR],
  ])('is %s %s, for the method is wrong', async (method, path, error) => {
    expectError(await plainRequest(world.base, path, { method }), 404, error);
  });
});

describe('a request that cannot be read', () => {
  it.each([
    ['/api/v2/wallet/%zz', 400, API_ERROR],
    ['/%ff', 400, API_ERROR],
    ['/.well-known/lnurlp/%zz', 200, LNURL_ERROR],
    ['/lnurl/verify/%zz', 200, VERIFY_ERROR],
  ])('for its encoding, such as %s', async (path, status, error) => {
    expectError(await plainRequest(world.base, path), status, error);
  });

  it.each([
    ['/api/v2/info', API_ERROR],
    ['/.well-known/lnurlp/alice?amount=1000', LNURL_ERROR],
    ['/.well-known/nostr.json?name=alice', API_ERROR],
  ])('for the size of its headers is refused in the way of %s', async (path, error) => {
    const head = `GET ${path} HTTP/1.1\r\nHost: localhost\r\n`;
    for (const size of [66_000, 200_000]) {
      const answer = await sendBytes(world.base, `${head}X-Cashu: ${'c'.repeat(size)}\r\n\r\n`);
      expectError(parseAnswer(answer), 431, expect.objectContaining(error));
    }
  });

  it.each([
    ['/api/v2/', API_ERROR],
    ['/.well-known/lnurlp/', LNURL_ERROR],
    ['/lnurl/verify/', LNURL_ERROR],
  ])('for the length of its path is refused in the way of %s', async (path, error) => {
    const answer = await sendBytes(
      world.base,
      `GET ${path}${'x'.repeat(70_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
    );
    expectError(parseAnswer(answer), 431, expect.objectContaining(error));
  });

  it('for the size of its headers, of which only the end is there, is refused in every way', async () => {
    const head = `GET /api/v2/info HTTP/1.1\r\nHost: localhost\r\n`;
    const answer = await sendBytes(world.base, `${head}X-Cashu: ${'c'.repeat(500_000)}\r\n\r\n`);
    expectError(parseAnswer(answer), 431, ERROR_FOR_ANYBODY);
  });

  it('for it is no HTTP at all is refused in every way', async () => {
    const answer = await sendBytes(world.base, 'HELLO\r\n\r\n');
    expectError(parseAnswer(answer), 400, ERROR_FOR_ANYBODY);
  });

  it.each([
    ['an unknown method', 'BREW /api/v2/info HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    ['a header without a name', 'GET /api/v2/info HTTP/1.1\r\nHost: localhost\r\n: x\r\n\r\n'],
    [
      'two lengths',
      'POST /api/v2/info HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx',
    ],
  ])('for it is %s', async (_case, bytes) => {
    expectError(parseAnswer(await sendBytes(world.base, bytes)), 400, API_ERROR);
  });

  it('is not one with headers as large as a long token needs', async () => {
    const headers = { 'x-cashu': 'c'.repeat(60_000) };
    expect((await plainRequest(world.base, '/api/v2/info', { headers })).status).toBe(200);
  });
});

describe('a request that is odd, and yet one', () => {
  it('may name its whole target, and is answered in the way of the path', async () => {
    const answer = await sendBytes(
      world.base,
      'GET http://elsewhere.test/.well-known/lnurlp/npub1x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
    );
    expect(answer).toMatch(/^HTTP\/1.1 200 /);
    expect(answer).toContain('{"status":"ERROR","reason":"Invalid recipient."}');
  });

  it('may lack the Host header, or expect what nobody knows', async () => {
    for (const header of ['', 'Host: x\r\nExpect: the-unexpected\r\n']) {
      const answer = await sendBytes(
        world.base,
        `GET /api/v2/info HTTP/1.1\r\n${header}Connection: close\r\n\r\n`,
      );
      expect(answer).toMatch(/^HTTP\/1.1 200 /);
    }
  });

  it('gets no invoice where it asks for the head of one alone', async () => {
    const created = () => world.mint.requestCounts['POST /v1/mint/quote/bolt11'];
    const before = created();
    const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
    const answer = await fetch(`${world.base}${path}`, { method: 'HEAD' });
    expect(answer.status).toBe(200);
    expect(created()).toBe(before);
  });

  it('is told in JSON that its WebSocket handshake is none', async () => {
    const answer = await sendBytes(
      world.base,
      'GET /api/v2/ws/quote HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
        'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n\r\n',
    );
    expect(answer).toMatch(/^HTTP\/1.1 400 /);
    expect(answer).toContain('access-control-allow-origin: *');
    expect(answer).toMatch(/\{"error":true,"message":"[^"]+"\}$/);
  });
});

describe('a failure inside', () => {
  it('is told without its details, in the way of the path', async () => {
    const { verify } = await world.askInvoice(wallet, 21);
    // Somebody whom nobody asked for before: what an address stands for is remembered.
    const { npub } = new TestWallet(world.base);
    const { db } = world.database;
    const message = expect.stringMatching(
      /^The server could not complete the request\. \(id: [0-9a-f]{8}\)$/,
    );
    await sql`alter table users rename to users_lost`.execute(db);
    await sql`alter table quotes rename to quotes_lost`.execute(db);
    const answers = {
      list: await wallet.get('/api/v2/wallet/quotes'),
      user: await wallet.get('/api/v2/user/info'),
      discovery: await request(world.base, `/.well-known/lnurlp/${npub}`),
      verify: await request(verify, ''),
      lookup: await request(world.base, '/.well-known/nostr.json?name=alice'),
    };
    await sql`alter table quotes_lost rename to quotes`.execute(db);
    await sql`alter table users_lost rename to users`.execute(db);
    expectError(answers.list, 500, { error: true, message });
    expectError(answers.user, 500, { error: true, message });
    expectError(answers.discovery, 500, { status: 'ERROR', reason: message });
    expectError(answers.verify, 500, { status: 'ERROR', reason: message });
    expectError(answers.lookup, 200, { error: true, message });
  });
});

describe('an error', () => {
  const SENT = 'cf7a0b1e5d';
  const QUOTES = '/api/v2/wallet/quotes';
  const USERNAME = '/api/v2/user/username';

  it.each<[string, string, string, Record<string, string>, string?]>([
    ['an authorization', 'GET', QUOTES, { authorization: `Bearer ${SENT}` }],
    ['a signed event', 'GET', QUOTES, { authorization: `Nostr ${SENT}` }],
    ['an unknown scheme', 'GET', QUOTES, { authorization: `${SENT} ${SENT}` }],
    ['a token', 'POST', USERNAME, { 'x-cashu': `cashuB${SENT}` }],
    ['a type of a body', 'POST', USERNAME, { 'content-type': SENT }, '{'],
    ['a body', 'PATCH', MINT, {}, `{"mint_url":"${SENT}`],
    ['a field', 'PATCH', MINT, {}, `{"mint_url":{"${SENT}":1}}`],
    ['a mint', 'PATCH', MINT, {}, `{"mint_url":"https://${SENT}:x@mint.example"}`],
    ['a parameter', 'GET', `${QUOTES}?since=${SENT}`, {}],
    ['a path', 'GET', `/${SENT}`, {}],
    ['a path that is none', 'GET', `/api/${SENT}%zz`, {}],
    ['a path that is too long', 'GET', `/.well-known/lnurlp/${SENT.repeat(7_000)}`, {}],
    ['a verify token', 'GET', `/lnurl/verify/${SENT}`, {}],
    ['a recipient', 'GET', `/.well-known/lnurlp/npub1${SENT}`, {}],
    ['an amount', 'GET', `/.well-known/lnurlp/alice?amount=${SENT}`, {}],
    ['a comment', 'GET', `/.well-known/lnurlp/alice?amount=1&comment=${SENT}`, {}],
  ])('does not repeat %s that was sent', async (_case, method, path, headers, body) => {
    const answer = await plainRequest(world.base, path, {
      method,
      headers: { authorization: wallet.sign(path, method), ...headers },
      ...(body !== undefined && { body }),
    });
    const isError = answer.body.error === true || answer.body.status === 'ERROR';
    expect(isError, JSON.stringify(answer.body)).toBe(true);
    expect(JSON.stringify([answer.body, ...answer.headers])).not.toContain(SENT);
  });
});

describe('a username', () => {
  const PATH = '/api/v2/user/username';

  it('cannot be bought, by whoever may ask', async () => {
    const answer = await wallet.send('POST', PATH, { username: 'alice' });
    expectError(answer, 400, { error: true, message: 'Usernames cannot be bought here.' });
  });

  it('cannot be asked for without saying who asks', async () => {
    const answer = await plainRequest(world.base, PATH, {
      method: 'POST',
      body: '{"username":"alice"}',
    });
    expectError(answer, 401, API_ERROR);
  });
});

describe('a web page', () => {
  it.each([
    ['/api/v2/user/mint', 'PATCH'],
    ['/api/v2/user/username', 'POST'],
    ['/api/v2/wallet/quotes', 'GET'],
    ['/.well-known/lnurlp/alice', 'GET'],
    ['/nowhere', 'GET'],
  ])('may ask whether it may call %s, from anywhere', async (path, method) => {
    const { status, headers } = await plainRequest(world.base, path, {
      method: 'OPTIONS',
      headers: {
        origin: 'https://wallet.example',
        'access-control-request-method': method,
        'access-control-request-headers': 'authorization,content-type,x-cashu',
      },
    });
    expect(status).toBe(204);
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(listOf(headers, 'access-control-allow-methods')).toEqual(
      expect.arrayContaining(['get', 'post', 'patch', 'options']),
    );
    expect(listOf(headers, 'access-control-allow-headers')).toEqual(
      expect.arrayContaining(['authorization', 'content-type', 'x-cashu']),
    );
  });

  it('may read the header that payment requests come in, on errors too', async () => {
    for (const path of ['/api/v2/info', '/api/v2/user/info', '/nowhere']) {
      const { headers } = await request(world.base, path, {
        headers: { origin: 'https://wallet.example' },
      });
      expect(listOf(headers, 'access-control-expose-headers'), path).toContain('x-cashu');
    }
  });

  it('may ask with OPTIONS alone', async () => {
    const { status } = await plainRequest(world.base, '/api/v2/info', { method: 'OPTIONS' });
    expect(status).toBe(204);
  });
});

/** JSON of this shape alone, readable by any web page, with nothing of our insides in it. */
function expectError({ status, headers, body }: ApiAnswer, expected: number, error: object): void {
  expect({ status, body }).toEqual({ status: expected, body: error });
  expect(headers.get('content-type')).toMatch(/^application\/json/);
  expect(headers.get('access-control-allow-origin')).toBe('*');
  expect(JSON.stringify(body)).not.toMatch(
    /node_modules|\.ts:|\.js:| at |select |insert |FST_|<html/i,
  );
}

function patchMint(body: string, headers: Record<string, string> = {}): Promise<ApiAnswer> {
  return plainRequest(world.base, MINT, {
    method: 'PATCH',
    headers: {
      authorization: wallet.sign(MINT, 'PATCH'),
      'content-type': 'application/json',
      ...headers,
    },
    body,
  });
}

/** The status, headers and JSON body of an answer as it came over the wire. */
function parseAnswer(text: string): ApiAnswer {
  const [head = '', body = ''] = text.split('\r\n\r\n');
  const [statusLine = '', ...lines] = head.split('\r\n');
  return {
    status: Number(statusLine.split(' ')[1]),
    headers: new Headers(lines.map((line) => line.split(': ', 2) as [string, string])),
    body: JSON.parse(body),
  };
}

function listOf(headers: Headers, name: string): string[] {
  return (headers.get(name) ?? '').split(',').map((entry) => entry.trim().toLowerCase());
}
