import { sql } from 'kysely';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { LogCapture } from '../helpers/log-capture.ts';
import { expectError, plainRequest } from '../helpers/plain-http.ts';
import { type ApiAnswer, request, type TestWallet } from '../helpers/wallet.ts';
import { useWorld } from '../helpers/world.ts';

/** Errors are reported in the dialect of the path (spec.md section 7), with an id where the log says more. */

const MINT = '/api/v2/user/mint';

const TABLES = ['users', 'quotes', 'usernames'];

const API_ERROR = { error: true, message: expect.any(String) };
const LNURL_ERROR = { status: 'ERROR', reason: expect.any(String) };

const captured = new LogCapture('warn');
// Polls would log the broken database, too.
const world = useWorld({ surroundings: { log: captured.log, scanIntervalMs: 3_600_000 } });
let wallet: TestWallet;
let verify: string;

beforeAll(async () => {
  wallet = world.newWallet();
  ({ verify } = await world.askInvoice(wallet, 21));
});

beforeEach(() => {
  captured.lines.length = 0;
});

describe('a body', () => {
  it.each([
    ['is cut off', '{"mint_url":', 'The body is not valid JSON.'],
    ['is no JSON', 'mint_url=http%3A%2F%2Fmint', 'The body is not valid JSON.'],
    ['is empty', '', 'The body is empty; JSON is expected.'],
    ['is null', 'null', 'mint_url: must be a string'],
    ['is an empty object', '{}', 'mint_url: must be a string'],
    ['has another type in the field', '{"mint_url":{}}', 'mint_url: must be a string'],
    ['is a list', '[]', 'body: must be a JSON object'],
  ])('that %s is refused, and what is wrong named', async (_case, body, message) => {
    const answer = await patchMint(body);
    expectError(answer, 400, { error: true, message });
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
    ['/api/v2/settings', API_ERROR],
    ['/api/v2/wallet/quotes/missing', API_ERROR],
    [`/api/v2/${'x'.repeat(5_000)}`, API_ERROR],
    ['/.well-known/keysend/alice', API_ERROR],
    ['/.well-known/lnurlp', LNURL_ERROR],
    ['/.well-known/lnurlp/alice/more', LNURL_ERROR],
    ['/lnurl/verify', LNURL_ERROR],
    ['/.well-known/nostr.json/more', API_ERROR],
    ['/../../etc/passwd', API_ERROR],
  ])('%s is a plain 404', async (path, error) => {
    expectError(await plainRequest(world.base, path), 404, error);
  });

  it.each([
    ['DELETE', '/api/v2/user/info', API_ERROR],
    ['PROPFIND', '/api/v2/info', API_ERROR],
    ['POST', '/.well-known/lnurlp/alice', LNURL_ERROR],
    ['PUT', `/lnurl/verify/${'0'.repeat(64)}`, LNURL_ERROR],
    ['POST', '/.well-known/nostr.json', API_ERROR],
  ])('is %s %s, for the method is wrong', async (method, path, error) => {
    expectError(await plainRequest(world.base, path, { method }), 404, error);
  });
});

describe('a request that fails inside', () => {
  it.each<[string, number, 'message' | 'reason', string, () => Promise<ApiAnswer>]>([
    ['a list', 500, 'message', '/api/v2/wallet/quotes', () => wallet.get('/api/v2/wallet/quotes')],
    [
      'a change of settings',
      500,
      'message',
      '/api/v2/user/lock',
      () => wallet.send('PATCH', '/api/v2/user/lock', { lockQuotes: true }),
    ],
    [
      'discovery',
      500,
      'reason',
      '/.well-known/lnurlp/:user',
      // Of somebody who was not asked for before.
      () => request(world.base, `/.well-known/lnurlp/${world.newWallet().npub}`),
    ],
    [
      'an invoice',
      500,
      'reason',
      '/.well-known/lnurlp/:user',
      () => request(world.base, `/.well-known/lnurlp/${wallet.npub}?amount=1000`),
    ],
    ['a verification', 500, 'reason', '/lnurl/verify/:token', () => request(verify, '')],
    [
      'a name lookup',
      200,
      'message',
      '/.well-known/nostr.json',
      () => request(world.base, '/.well-known/nostr.json?name=alice'),
    ],
  ])(
    'for %s names the line of the log, and nothing else of it',
    async (_case, status, field, route, ask) => {
      const answer = await withoutTables(ask);
      const [, id] = /^The server could not complete the request\. \(id: ([0-9a-f]{8})\)$/.exec(
        answer.body[field],
      ) ?? [null, 'no id'];
      expect(answer).toMatchObject({ status });
      expect(Object.keys(answer.body).toSorted()).toEqual(
        field === 'message' ? ['error', 'message'] : ['reason', 'status'],
      );
      expect(loggedErrors()).toEqual([
        expect.objectContaining({ errorId: id, route, msg: 'a request failed' }),
      ]);
      // Only the log says why.
      expect(loggedErrors()[0].err.message).toMatch(/does not exist|no such table/);
    },
  );
});

describe('a request that is refused', () => {
  it('has no id, and no line of the log that somebody must act on', async () => {
    const answers = await Promise.all([
      request(world.base, '/nowhere'),
      request(world.base, '/api/v2/user/info'),
      request(world.base, '/.well-known/lnurlp/nobody'),
      request(world.base, `/lnurl/verify/${'0'.repeat(64)}`),
      wallet.send('PATCH', '/api/v2/user/lock', { lockQuotes: 'perhaps' }),
    ]);
    for (const { body } of answers) {
      expect(JSON.stringify(body)).not.toContain('(id:');
    }
    expect(captured.lines).toEqual([]);
  });
});

describe('an error', () => {
  const SENT = 'cf7a0b1e5d';
  const QUOTES = '/api/v2/wallet/quotes';
  const USERNAME = '/api/v2/user/username';

  it.each<[string, string, string, Record<string, string>, string?]>([
    ['an authorization', 'GET', QUOTES, { authorization: `Bearer ${SENT}` }],
    ['a signed event', 'GET', QUOTES, { authorization: `Nostr ${SENT}` }],
    ['a token', 'POST', USERNAME, { 'x-cashu': `cashuB${SENT}` }],
    ['a body', 'PATCH', MINT, {}, `{"mint_url":"${SENT}`],
    ['a mint', 'PATCH', MINT, {}, `{"mint_url":"https://${SENT}:x@mint.example"}`],
    ['a parameter', 'GET', `${QUOTES}?since=${SENT}`, {}],
    ['a path', 'GET', `/${SENT}`, {}],
    ['a path that is too long', 'GET', `/.well-known/lnurlp/${SENT.repeat(7_000)}`, {}],
    ['a verify token', 'GET', `/lnurl/verify/${SENT}`, {}],
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

it('a username cannot be bought where the operator sells none', async () => {
  const answer = await wallet.send('POST', '/api/v2/user/username', { username: 'alice' });
  expectError(answer, 400, { error: true, message: 'Usernames cannot be bought here.' });
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
});

async function withoutTables<T>(ask: () => Promise<T>): Promise<T> {
  const { db } = world.database;
  for (const table of TABLES) {
    await sql`alter table ${sql.table(table)} rename to ${sql.table(`${table}_lost`)}`.execute(db);
  }
  try {
    return await ask();
  } finally {
    for (const table of TABLES) {
      await sql`alter table ${sql.table(`${table}_lost`)} rename to ${sql.table(table)}`.execute(
        db,
      );
    }
  }
}

function loggedErrors() {
  return captured.lines.map((line) => JSON.parse(line)).filter(({ errorId }) => errorId);
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

function listOf(headers: Headers, name: string): string[] {
  return (headers.get(name) ?? '').split(',').map((entry) => entry.trim().toLowerCase());
}
