import { sql } from 'kysely';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { expectErrorResponse, sendRawRequest } from '../helpers/network/raw-http-requests.ts';
import {
  type ApiResponse,
  type RecipientClient,
  requestJson,
} from '../helpers/recipients/recipient-client.ts';
import { LogCapture } from '../helpers/service/log-capture.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';

/** Error responses in the format of each path, and CORS headers. */

const MINT_PATH = '/api/v2/user/mint';

const RENAMED_TABLES = ['users', 'quotes', 'usernames'];

const HOUR_MS = 60 * 60_000;

const API_ERROR = { error: true, code: expect.any(String), message: expect.any(String) };
const LNURL_ERROR = { status: 'ERROR', reason: expect.any(String) };

const logCapture = new LogCapture('warn');
// Polls are an hour apart, because they would log errors while tables are missing.
const environment = useTestEnvironment({
  overrides: { log: logCapture.log, scanIntervalMs: HOUR_MS },
});
let wallet: RecipientClient;
let verify: string;

beforeAll(async () => {
  wallet = environment.newWallet();
  ({ verify } = await environment.requestInvoice(wallet, 21));
});

beforeEach(() => {
  logCapture.lines.length = 0;
});

describe('a request body', () => {
  it.each([
    ['is truncated', '{"mint_url":', 'The body is not valid JSON.'],
    ['is null', 'null', 'mint_url: must be a string'],
    ['has a field of the wrong type', '{"mint_url":{}}', 'mint_url: must be a string'],
    ['is an array', '[]', 'body: must be a JSON object'],
  ])('that %s is rejected with a message that names the problem', async (_case, body, message) => {
    const response = await patchMint(body);
    expectErrorResponse(response, 400, { error: true, code: 'invalid', message });
  });

  it('that is too large is rejected with and without Content-Length', async () => {
    const body = JSON.stringify({ mint_url: 'x'.repeat(100_000) });
    const message = 'The body is too large.';
    const withLength = { 'content-length': String(body.length) };
    const chunked = { 'transfer-encoding': 'chunked' };
    for (const headers of [withLength, chunked]) {
      expectErrorResponse(await patchMint(body, headers), 413, {
        error: true,
        code: 'too_large',
        message,
      });
    }
  });

  it('is parsed as JSON regardless of its Content-Type', async () => {
    const body = JSON.stringify({ mint_url: environment.mint.url, unknown: true });
    for (const type of ['application/json; charset=utf-8', 'text/plain', 'application/cashu']) {
      expect((await patchMint(body, { 'content-type': type })).status, type).toBe(200);
    }
  });

  it('is not parsed before the request is authenticated', async () => {
    const response = await sendRawRequest(environment.origin, MINT_PATH, {
      method: 'PATCH',
      body: '{',
    });
    expectErrorResponse(response, 401, API_ERROR);
  });
});

describe('an unknown route', () => {
  it.each([
    ['/api/v2/settings', API_ERROR],
    [`/api/v2/${'x'.repeat(5_000)}`, API_ERROR],
    ['/.well-known/lnurlp', LNURL_ERROR],
    ['/../../etc/passwd', API_ERROR],
  ])('returns 404 for GET %s', async (path, error) => {
    expectErrorResponse(await sendRawRequest(environment.origin, path), 404, error);
  });
});

describe('a known path', () => {
  it.each([
    ['GET', '/api/v2/user/username', 'POST', API_ERROR],
    ['POST', '//api/v2/%69nfo/?a=1', 'GET, HEAD', API_ERROR],
    ['POST', '/.well-known/lnurlp/alice', 'GET, HEAD', LNURL_ERROR],
    // These also match the route of payment pages.
    ['POST', '/docs', 'GET, HEAD', API_ERROR],
    ['PUT', '/', 'GET, HEAD, POST', API_ERROR],
  ])(
    'returns 405 for %s %s and names the methods that it has',
    async (method, path, allowed, error) => {
      const response = await sendRawRequest(environment.origin, path, { method });
      expectErrorResponse(response, 405, error);
      expect(response.headers.get('allow')?.split(', ').toSorted()).toEqual(
        [...allowed.split(', '), 'OPTIONS'].toSorted(),
      );
    },
  );

  it.each([
    ['PUT', '/alice'],
    ['PATCH', '/docs/nothing.js'],
  ])('is not every path: %s %s returns 404', async (method, path) => {
    const response = await sendRawRequest(environment.origin, path, { method });
    expectErrorResponse(response, 404, API_ERROR);
    expect(response.headers.get('allow')).toBeNull();
  });
});

describe('an internal error', () => {
  it.each<[string, number, 'message' | 'reason', string, () => Promise<ApiResponse>]>([
    [
      'a quote list',
      500,
      'message',
      '/api/v2/wallet/quotes',
      () => wallet.get('/api/v2/wallet/quotes'),
    ],
    [
      'a settings change',
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
      // A new npub, because the service caches known recipients.
      () => requestJson(environment.origin, `/.well-known/lnurlp/${environment.newWallet().npub}`),
    ],
    [
      'an invoice',
      500,
      'reason',
      '/.well-known/lnurlp/:user',
      () => requestJson(environment.origin, `/.well-known/lnurlp/${wallet.npub}?amount=1000`),
    ],
    ['a verification', 500, 'reason', '/lnurl/verify/:token', () => requestJson(verify, '')],
    [
      'a name lookup',
      200,
      'message',
      '/.well-known/nostr.json',
      () => requestJson(environment.origin, '/.well-known/nostr.json?name=alice'),
    ],
  ])(
    'in %s returns the id of its log line and no other details',
    async (_case, status, field, route, sendRequest) => {
      const response = await withTablesRenamed(sendRequest);
      const [, id] = /^The server could not complete the request\. \(id: ([0-9a-f]{8})\)$/.exec(
        response.body[field],
      ) ?? [null, 'no id'];
      expect(response).toMatchObject({ status });
      expect(Object.keys(response.body).toSorted()).toEqual(
        field === 'message' ? ['code', 'error', 'message'] : ['reason', 'status'],
      );
      expect(readLoggedErrors()).toEqual([
        expect.objectContaining({ errorId: id, route, msg: 'request failed' }),
      ]);
      expect(readLoggedErrors()[0].err.message).toMatch(/does not exist|no such table/);
    },
  );
});

describe('a rejected request', () => {
  it('returns no error id and logs no warning', async () => {
    const responses = await Promise.all([
      requestJson(environment.origin, '/nowhere'),
      requestJson(environment.origin, '/api/v2/user/info'),
      requestJson(environment.origin, '/.well-known/lnurlp/unknown'),
      requestJson(environment.origin, `/lnurl/verify/${'0'.repeat(64)}`),
      wallet.send('PATCH', '/api/v2/user/lock', { lockQuotes: 'perhaps' }),
    ]);
    for (const { body } of responses) {
      expect(JSON.stringify(body)).not.toContain('(id:');
    }
    expect(logCapture.lines).toEqual([]);
  });
});

it('returns 400 for a username purchase if the operator sells no usernames', async () => {
  const response = await wallet.send('POST', '/api/v2/user/username', { username: 'alice' });
  expectErrorResponse(response, 400, {
    error: true,
    code: 'name_not_for_sale',
    message: 'Usernames cannot be bought here.',
  });
});

describe('a web page of any origin', () => {
  it.each([
    ['/api/v2/user/mint', 'PATCH'],
    ['/api/v2/wallet/quotes', 'GET'],
  ])(
    'gets a preflight response for %s that allows its method and headers',
    async (path, method) => {
      const { status, headers } = await sendRawRequest(environment.origin, path, {
        method: 'OPTIONS',
        headers: {
          origin: 'https://wallet.example',
          'access-control-request-method': method,
          'access-control-request-headers':
            'authorization,content-type,x-cashu,traceparent,baggage',
        },
      });
      expect(status).toBe(204);
      expect(headers.get('access-control-allow-origin')).toBe('*');
      expect(parseHeaderList(headers, 'access-control-allow-methods')).toEqual(
        expect.arrayContaining(['get', 'post', 'patch', 'options']),
      );
      expect(parseHeaderList(headers, 'access-control-allow-headers')).toEqual(
        expect.arrayContaining([
          'authorization',
          'content-type',
          'x-cashu',
          // Web apps with tracing add these.
          'traceparent',
          'baggage',
        ]),
      );
    },
  );

  it('may read the X-Cashu header of successful and error responses', async () => {
    for (const path of ['/api/v2/info', '/api/v2/user/info', '/nowhere']) {
      const { headers } = await requestJson(environment.origin, path, {
        headers: { origin: 'https://wallet.example' },
      });
      expect(parseHeaderList(headers, 'access-control-expose-headers'), path).toContain('x-cashu');
    }
  });
});

async function withTablesRenamed<T>(sendRequest: () => Promise<T>): Promise<T> {
  const { db } = environment.database;
  for (const table of RENAMED_TABLES) {
    await sql`alter table ${sql.table(table)} rename to ${sql.table(`${table}_lost`)}`.execute(db);
  }
  try {
    return await sendRequest();
  } finally {
    for (const table of RENAMED_TABLES) {
      await sql`alter table ${sql.table(`${table}_lost`)} rename to ${sql.table(table)}`.execute(
        db,
      );
    }
  }
}

function readLoggedErrors() {
  return logCapture.lines.map((line) => JSON.parse(line)).filter(({ errorId }) => errorId);
}

function patchMint(body: string, headers: Record<string, string> = {}): Promise<ApiResponse> {
  return sendRawRequest(environment.origin, MINT_PATH, {
    method: 'PATCH',
    headers: {
      authorization: wallet.signRequest(MINT_PATH, 'PATCH'),
      'content-type': 'application/json',
      ...headers,
    },
    body,
  });
}

function parseHeaderList(headers: Headers, name: string): string[] {
  return (headers.get(name) ?? '').split(',').map((entry) => entry.trim().toLowerCase());
}
