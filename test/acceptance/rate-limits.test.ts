import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Service } from '../../src/service.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { type RawRequest, sendRawBytes, sendRawRequest } from '../helpers/raw-http.ts';
import { TestClock } from '../helpers/test-clock.ts';
import {
  startAdditionalService,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/test-environment.ts';
import type { ApiResponse, TestWallet } from '../helpers/test-wallet.ts';
import { TEST_ZAP_SECRET_KEY } from '../helpers/zap-requests.ts';

/** The service rejects a client's second request, which shows which requests it attributes to one client. */
const ONE_REQUEST = { LIMIT_REQUESTS: '1' };
const HINT_TEXT = 'TRUST_PROXY';

const REQUESTS = 12;
const INVOICES = 3;
const CHANGES = 4;
const PURCHASES = 2;

const INFO = '/api/v2/info';
const USER = '/api/v2/user/info';
const LOCK = '/api/v2/user/lock';
const MINT = '/api/v2/user/mint';
const SIGN_IN = '/api/v2/auth/nip98';
const USERNAME = '/api/v2/user/username';

const clock = new TestClock();
const world = useTestEnvironment({
  overrides: { monotonicMs: clock.now },
  env: {
    TRUST_PROXY: '127.0.0.1',
    LIMIT_REQUESTS: String(REQUESTS),
    LIMIT_INVOICES: String(INVOICES),
    LIMIT_CHANGES: String(CHANGES),
    LIMIT_PURCHASES: String(PURCHASES),
    USERNAME_PRICE_SAT: '21',
    ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY,
  },
});
let addressCount = 0;

describe('an address over its request limit', () => {
  it.each([
    ['the API', INFO, { error: true, message: expect.any(String) }],
    [
      'a Lightning address',
      '/.well-known/lnurlp/x',
      { status: 'ERROR', reason: expect.any(String) },
    ],
    ['a verify URL', '/lnurl/verify/x', { status: 'ERROR', reason: expect.any(String) }],
    ['a name lookup', '/.well-known/nostr.json', { error: true, message: expect.any(String) }],
    ['an unknown path', '/nowhere', { error: true, message: expect.any(String) }],
  ])('gets 429 with Retry-After in the error format of %s', async (_case, path, body) => {
    const address = newAddress();
    for (const response of await sendTimes(REQUESTS, path, address)) {
      expect(response.status).not.toBe(429);
    }
    const rejected = await sendFrom(path, address);
    expectTooMany(rejected, 'Too many requests from this address.');
    expect(rejected.body).toEqual(body);
    expect((await sendFrom(path, newAddress())).status).not.toBe(429);
  });

  it('is served again after Retry-After, even if it continued to send requests', async () => {
    const address = newAddress();
    await sendTimes(REQUESTS, INFO, address);
    clock.advance(20_000);
    const rejected = await sendFrom(INFO, address);
    expect(rejected.headers.get('retry-after')).toBe('40');
    clock.advance(39_000);
    expect((await sendFrom(INFO, address)).headers.get('retry-after')).toBe('1');
    clock.advance(1_000);
    for (const { status } of await sendTimes(REQUESTS, INFO, address)) {
      expect(status).toBe(200);
    }
    expect((await sendFrom(INFO, address)).status).toBe(429);
  });
});

describe('a CORS preflight', () => {
  it('is never rejected, but counts towards the request limit', async () => {
    const address = newAddress();
    for (const { status } of await sendTimes(REQUESTS + 1, USER, address, { method: 'OPTIONS' })) {
      expect(status).toBe(204);
    }
    const rejected = await sendFrom(USER, address);
    expectTooMany(rejected, 'Too many requests from this address.');
    expect(rejected.headers.get('access-control-expose-headers')).toContain('Retry-After');
  });
});

describe('an address over its invoice limit', () => {
  it('gets 429 with Retry-After, while other addresses still get invoices', async () => {
    const address = newAddress();
    const path = `/.well-known/lnurlp/${world.newWallet().npub}`;
    for (const { body } of await sendTimes(INVOICES, `${path}?amount=21000`, address)) {
      expect(body.pr).toMatch(/^ln/);
    }
    const created = countCreatedInvoices();
    const rejected = await sendFrom(`${path}?amount=21000`, address);
    expectTooMany(rejected, 'Too many requests for invoices from this address.');
    expect(countCreatedInvoices()).toBe(created);
    expect((await sendFrom(`${path}?amount=21000`, newAddress())).body.pr).toMatch(/^ln/);
  });
});

describe('a key', () => {
  it('that changes settings too often gets 429 at every address', async () => {
    const wallet = world.newWallet();
    const changes = [
      () => send(wallet, 'PATCH', LOCK, { lockQuotes: false }),
      () => send(wallet, 'PATCH', MINT, { mint_url: world.mint.url }),
    ];
    for (let count = 0; count < CHANGES; count++) {
      expect((await changes[count % changes.length]?.())?.status).toBe(200);
    }
    for (const change of changes) {
      expectTooMany(await change(), 'Too many changes with this key.');
    }
    expect((await send(wallet, 'GET', USER)).status).toBe(200);
    expect((await send(wallet, 'GET', SIGN_IN)).status).toBe(200);
  });

  it('shares its change limit with the other keys of its address', async () => {
    const address = newAddress();
    for (let count = 0; count < CHANGES; count++) {
      expect((await patchLock(world.newWallet(), address)).status).toBe(200);
    }
    const rejected = await patchLock(world.newWallet(), address);
    expectTooMany(rejected, 'Too many changes from this address.');
    // After a restart, many wallets may sign in from one shared address.
    const another = await send(world.newWallet(), 'GET', SIGN_IN, undefined, address);
    expect(another.status).toBe(200);
  });

  it('that requests usernames too often gets 429 at every address', async () => {
    const wallet = world.newWallet();
    const buy = (address?: string) =>
      send(wallet, 'POST', USERNAME, { username: 'alice' }, address);
    for (let count = 0; count < PURCHASES; count++) {
      expect((await buy()).status).toBe(402);
    }
    expectTooMany(await buy(), 'Too many requests for usernames with this key.');
    const address = newAddress();
    for (let count = 0; count < PURCHASES; count++) {
      await buy(address);
    }
    expectTooMany(await buy(address), 'Too many requests for usernames from this address.');
  });

  it('that sends too many requests gets 429 for its token and its signature', async () => {
    const wallet = world.newWallet();
    const { body } = await send(wallet, 'GET', SIGN_IN);
    const headers = { authorization: `Bearer ${body.data.token}` };
    for (let count = 1; count < REQUESTS; count++) {
      expect((await sendFrom(USER, newAddress(), { headers })).status).toBe(200);
    }
    expectTooMany(
      await sendFrom(USER, newAddress(), { headers }),
      'Too many requests with this key.',
    );
    expectTooMany(await send(wallet, 'GET', USER), 'Too many requests with this key.');
  });

  it('is not limited by forged requests that name its public key', async () => {
    const wallet = world.newWallet();
    const forger = world.newWallet();
    const event = { ...forger.createNip98Event(USER, 'GET'), pubkey: wallet.pubkey };
    const authorization = `Nostr ${Buffer.from(JSON.stringify(event)).toString('base64')}`;
    for (let count = 0; count < REQUESTS; count++) {
      const { status } = await sendFrom(USER, newAddress(), { headers: { authorization } });
      expect(status).toBe(401);
    }
    expect((await send(wallet, 'GET', USER)).status).toBe(200);
  });
});

describe('behind a trusted proxy', () => {
  let service: Service;

  beforeAll(async () => {
    const env = { TRUST_PROXY: '127.0.0.1,10.0.0.0/8', ...ONE_REQUEST };
    service = await startAdditionalService(world, env);
  });

  afterAll(() => service.stop());

  it.each([
    ['after forged addresses', '203.0.113.1, 198.51.100.1', '203.0.113.2, 198.51.100.1', true],
    ['after the address of a trusted proxy', '10.0.0.1, 198.51.100.2', '198.51.100.2', true],
    ['after garbage', `${'x,'.repeat(25_000)} 198.51.100.3`, '198.51.100.3', true],
    [
      'behind several trusted proxies',
      '198.51.100.10',
      '203.0.113.1, 198.51.100.10, 10.0.0.7',
      true,
    ],
    ['with a port', '198.51.100.11:4711', '198.51.100.11:4712', true],
    ['as an IPv4-mapped IPv6 address', '198.51.100.12', '::ffff:198.51.100.12', true],
    ['at another address of its /64', '2001:db8:1:1::1', '2001:db8:1:1:ffff::2', true],
    ['in brackets with a port', '2001:db8:1:3::1', '[2001:db8:1:3::1]:4712', true],
    ['at another address', '198.51.100.20', '198.51.100.21', false],
    ['in another /64', '2001:db8:2:1::1', '2001:db8:2:2::1', false],
    ['before another address', '198.51.100.22', '198.51.100.22, 198.51.100.23', false],
  ])(
    'identifies a client %s: %s and %s are the same client: %s',
    async (_case, first, second, expected) => {
      expect(await areSameClient(service, first, second)).toBe(expected);
    },
  );

  it('uses the last address if X-Forwarded-For occurs twice', async () => {
    const head = `GET ${INFO} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n`;
    for (const [spoofed, status] of [
      ['203.0.113.1', '200'],
      ['203.0.113.2', '429'],
    ]) {
      const response = await sendRawBytes(
        service.url,
        `${head}X-Forwarded-For: ${spoofed}\r\nX-Forwarded-For: 198.51.100.30\r\n\r\n`,
      );
      expect(response).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    }
  });
});

it('counts all clients behind an untrusted proxy as one and logs once which setting to change', async () => {
  const log = new LogCapture('warn');
  const service = await useAdditionalService(world, ONE_REQUEST, { log: log.log });
  expect((await sendRawRequest(service.url, INFO)).status).toBe(200);
  expect(log.lines.filter((line) => line.includes(HINT_TEXT))).toEqual([]);

  for (const address of ['198.51.100.1', '203.0.113.7', '127.0.0.1', 'garbage']) {
    expect(await statusFor(service, address)).toBe(429);
  }
  const hints = log.lines.filter((line) => line.includes(HINT_TEXT));
  expect(hints).toHaveLength(1);
  expect(hints[0]).toContain('set TRUST_PROXY=127.0.0.1');
  expect(hints[0]).not.toContain('198.51.100.1');
});

/** Tests whether the service attributes requests with these `X-Forwarded-For` headers to one client. */
async function areSameClient(service: Service, first: string, second: string): Promise<boolean> {
  expect(await statusFor(service, first)).toBe(200);
  return (await statusFor(service, second)) === 429;
}

async function statusFor({ url }: Service, forwardedFor: string): Promise<number> {
  const headers = { 'x-forwarded-for': forwardedFor };
  return (await sendRawRequest(url, INFO, { headers })).status;
}

function patchLock(wallet: TestWallet, address: string): Promise<ApiResponse> {
  return send(wallet, 'PATCH', LOCK, { lockQuotes: false }, address);
}

/** Returns a client address that no test has used yet. */
function newAddress(): string {
  addressCount += 1;
  return `198.18.${addressCount >> 8}.${addressCount & 255}`;
}

function sendFrom(path: string, address: string, options: RawRequest = {}): Promise<ApiResponse> {
  return sendRawRequest(world.service.url, path, {
    ...options,
    headers: { 'user-agent': 'test', 'x-forwarded-for': address, ...options.headers },
  });
}

async function sendTimes(
  times: number,
  path: string,
  address: string,
  options?: RawRequest,
): Promise<ApiResponse[]> {
  const responses: ApiResponse[] = [];
  for (let count = 0; count < times; count++) {
    responses.push(await sendFrom(path, address, options));
  }
  return responses;
}

/** Sends a signed request, by default from an unused address. */
function send(
  wallet: TestWallet,
  method: 'GET' | 'PATCH' | 'POST',
  path: string,
  body?: object,
  address = newAddress(),
): Promise<ApiResponse> {
  return sendFrom(path, address, {
    method,
    headers: {
      authorization: wallet.signRequest(path, method),
      'content-type': 'application/json',
    },
    ...(body && { body: JSON.stringify(body) }),
  });
}

function countCreatedInvoices(): number {
  return world.mint.requestCounts['POST /v1/mint/quote/bolt11'] ?? 0;
}

function expectTooMany({ status, headers, body }: ApiResponse, what: string): void {
  const seconds = Number(headers.get('retry-after'));
  expect(body.message ?? body.reason).toBe(`${what} Try again in ${seconds} s.`);
  expect(status).toBe(429);
  expect(seconds).toBeGreaterThanOrEqual(1);
  expect(seconds).toBeLessThanOrEqual(60);
  expect(headers.get('access-control-allow-origin')).toBe('*');
  expect(headers.get('content-type')).toMatch(/^application\/json/);
}
