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

const MINT_PATH = '/api/v2/user/mint';

const API_ERROR = { error: true, code: expect.any(String), message: expect.any(String) };
const LNURL_ERROR = { status: 'ERROR', reason: expect.any(String) };

const logCapture = new LogCapture('warn');
// Polls are an hour apart, because they would log errors while tables are missing.
const environment = useTestEnvironment({
  overrides: { log: logCapture.log, scanIntervalMs: 3_600_000 },
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
    const error = { error: true, code: 'too_large', message: 'The body is too large.' };
    for (const headers of [
      { 'content-length': String(body.length) },
      { 'transfer-encoding': 'chunked' },
    ]) {
      expectErrorResponse(await patchMint(body, headers), 413, error);
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

  it('is not every path that may belong to a recipient', async () => {
    const response = await sendRawRequest(environment.origin, '/alice', { method: 'PUT' });
    expectErrorResponse(response, 404, API_ERROR);
    expect(response.headers.get('allow')).toBeNull();
  });
});

describe('an internal error', () => {
  it.each<[string, number, object, () => Promise<ApiResponse>]>([
    ['/api/v2/wallet/quotes', 500, API_ERROR, () => wallet.get('/api/v2/wallet/quotes')],
    [
      '/.well-known/lnurlp/:user',
      500,
      LNURL_ERROR,
      () => requestJson(environment.origin, `/.well-known/lnurlp/${wallet.npub}?amount=1000`),
    ],
    ['/lnurl/verify/:token', 500, LNURL_ERROR, () => requestJson(verify, '')],
    [
      '/.well-known/nostr.json',
      200,
      API_ERROR,
      () => requestJson(environment.origin, '/.well-known/nostr.json?name=alice'),
    ],
  ])(
    'of %s returns the id of its log line and no other details',
    async (route, status, body, sendRequest) => {
      const response = await withTablesRenamed(sendRequest);
      expectErrorResponse(response, status, body);
      const [, id] = /^The server could not complete the request\. \(id: ([0-9a-f]{8})\)$/.exec(
        response.body.message ?? response.body.reason,
      ) ?? [null, 'no id'];
      const errors = logCapture.lines
        .map((line) => JSON.parse(line))
        .filter((line) => line.errorId);
      expect(errors).toEqual([
        expect.objectContaining({ errorId: id, route, msg: 'request failed' }),
      ]);
      expect(errors[0].err.message).toMatch(/does not exist|no such table/);
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
  const message = 'Usernames cannot be bought here.';
  expectErrorResponse(response, 400, { error: true, code: 'name_not_for_sale', message });
});

describe('a web page of any origin', () => {
  it('gets a preflight response that allows the methods and headers of the API', async () => {
    // Web apps with tracing add the last two.
    const requested = ['authorization', 'content-type', 'x-cashu', 'traceparent', 'baggage'];
    const { status, headers } = await sendRawRequest(environment.origin, MINT_PATH, {
      method: 'OPTIONS',
      headers: {
        origin: 'https://wallet.example',
        'access-control-request-method': 'PATCH',
        'access-control-request-headers': requested.join(),
      },
    });
    expect(status).toBe(204);
    expect(headers.get('access-control-allow-origin')).toBe('*');
    const parse = (name: string) => headers.get(name)?.toLowerCase().split(/,\s*/);
    expect(parse('access-control-allow-methods')).toEqual(
      expect.arrayContaining(['get', 'post', 'patch', 'options']),
    );
    expect(parse('access-control-allow-headers')).toEqual(expect.arrayContaining(requested));
  });

  it('may read the X-Cashu header of successful and error responses', async () => {
    for (const path of ['/api/v2/info', '/api/v2/user/info', '/nowhere']) {
      const { headers } = await requestJson(environment.origin, path);
      expect(headers.get('access-control-expose-headers'), path).toContain('X-Cashu');
    }
  });
});

async function withTablesRenamed<T>(sendRequest: () => Promise<T>): Promise<T> {
  const { db } = environment.database;
  const rename = (from: string, to: string) =>
    sql`alter table ${sql.table(from)} rename to ${sql.table(to)}`.execute(db);
  for (const table of ['users', 'quotes', 'usernames']) {
    await rename(table, `${table}_lost`);
  }
  try {
    return await sendRequest();
  } finally {
    for (const table of ['users', 'quotes', 'usernames']) {
      await rename(`${table}_lost`, table);
    }
  }
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
