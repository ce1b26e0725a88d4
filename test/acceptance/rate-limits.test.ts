import { describe, expect, it } from 'vitest';
import type { Service } from '../../src/service.ts';
import {
  type RawRequest,
  sendRawBytes,
  sendRawRequest,
} from '../helpers/network/raw-http-requests.ts';
import type { ApiResponse, RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { LogCapture } from '../helpers/service/log-capture.ts';
import { useAdditionalService, useTestEnvironment } from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

/** With this limit, the second request of a client gets 429. This shows whom the service regards as one client. */
const ONE_REQUEST_ENV = { LIMIT_REQUESTS: '1' };

const SECOND_MS = 1_000;
const WINDOW_SECONDS = 60;

const MAX_REQUESTS = 12;
const MAX_INVOICES = 3;
const MAX_CHANGES = 4;
const MAX_PURCHASES = 2;

const INFO_PATH = '/api/v2/info';
const USER_PATH = '/api/v2/user/info';
const LOCK_PATH = '/api/v2/user/lock';
const MINT_PATH = '/api/v2/user/mint';
const SIGN_IN_PATH = '/api/v2/auth/nip98';
const NOTIFICATIONS_PATH = '/api/v2/user/notifications';
const USERNAME_PATH = '/api/v2/user/username';

const clock = new TestClock();
const environment = useTestEnvironment({
  overrides: { monotonicMs: clock.now },
  env: {
    TRUST_PROXY: '127.0.0.1',
    LIMIT_REQUESTS: String(MAX_REQUESTS),
    LIMIT_INVOICES: String(MAX_INVOICES),
    LIMIT_CHANGES: String(MAX_CHANGES),
    LIMIT_PURCHASES: String(MAX_PURCHASES),
    USERNAME_PRICE_SAT: '21',
  },
});
let addressCount = 0;

describe('an address over its request limit', () => {
  it.each([
    [INFO_PATH, { error: true, code: 'rate_limited', message: expect.any(String) }],
    ['/.well-known/lnurlp/x', { status: 'ERROR', reason: expect.any(String) }],
  ])('gets 429 with Retry-After in the error format of %s', async (path, body) => {
    const address = newAddress();
    for (const response of await sendRepeatedly(MAX_REQUESTS, path, address)) {
      expect(response.status).not.toBe(429);
    }
    const rejected = await sendFrom(path, address);
    expectTooManyRequests(rejected, 'Too many requests from your IP address.');
    expect(rejected.body).toEqual(body);
    expect((await sendFrom(path, newAddress())).status).not.toBe(429);
  });

  it('is served again after Retry-After, even if it continued to send requests', async () => {
    const address = newAddress();
    await sendRepeatedly(MAX_REQUESTS, INFO_PATH, address);
    clock.advance(59 * SECOND_MS);
    expect((await sendFrom(INFO_PATH, address)).headers.get('retry-after')).toBe('1');
    clock.advance(SECOND_MS);
    for (const { status } of await sendRepeatedly(MAX_REQUESTS, INFO_PATH, address)) {
      expect(status).toBe(200);
    }
    expect((await sendFrom(INFO_PATH, address)).status).toBe(429);
  });
});

it('never rejects a CORS preflight, but counts it', async () => {
  const address = newAddress();
  const options = { method: 'OPTIONS' };
  const preflights = await sendRepeatedly(MAX_REQUESTS + 1, USER_PATH, address, options);
  expect(new Set(preflights.map(({ status }) => status))).toEqual(new Set([204]));
  const rejected = await sendFrom(USER_PATH, address);
  expectTooManyRequests(rejected, 'Too many requests from your IP address.');
  expect(rejected.headers.get('access-control-expose-headers')).toContain('Retry-After');
});

it('rejects an address over its invoice limit without a request to the mint', async () => {
  const address = newAddress();
  const path = `/.well-known/lnurlp/${environment.newWallet().npub}?amount=21000`;
  for (const { body } of await sendRepeatedly(MAX_INVOICES, path, address)) {
    expect(body.pr).toMatch(/^ln/);
  }
  const countCreatedInvoices = () => environment.mint.requestCounts['POST /v1/mint/quote/bolt11'];
  const createdBefore = countCreatedInvoices();
  const rejected = await sendFrom(path, address);
  expectTooManyRequests(rejected, 'Too many requests for invoices from your IP address.');
  expect(countCreatedInvoices()).toBe(createdBefore);
  expect((await sendFrom(path, newAddress())).body.pr).toMatch(/^ln/);
});

describe('a key', () => {
  it('that changes settings too often gets 429 at every address', async () => {
    const wallet = environment.newWallet();
    const changes = [
      () => sendSigned(wallet, 'PATCH', LOCK_PATH, { lockQuotes: false }),
      () => sendSigned(wallet, 'PATCH', MINT_PATH, { mint_url: environment.mint.url }),
    ];
    for (let count = 0; count < MAX_CHANGES; count++) {
      expect((await changes[count % changes.length]?.())?.status).toBe(200);
    }
    for (const change of changes) {
      expectTooManyRequests(await change(), 'Too many changes with this key.');
    }
    expect((await sendSigned(wallet, 'GET', USER_PATH)).status).toBe(200);
    expect((await sendSigned(wallet, 'GET', SIGN_IN_PATH)).status).toBe(200);
  });

  it('shares its change limit with the other keys of its address', async () => {
    const address = newAddress();
    const changeNewWallet = () =>
      sendSigned(environment.newWallet(), 'PATCH', LOCK_PATH, { lockQuotes: false }, address);
    for (let count = 0; count < MAX_CHANGES; count++) {
      expect((await changeNewWallet()).status).toBe(200);
    }
    expectTooManyRequests(await changeNewWallet(), 'Too many changes from your IP address.');
    // Signing in is exempt: many wallets may sign in from one shared address after a restart.
    const newWallet = environment.newWallet();
    const signIn = await sendSigned(newWallet, 'GET', SIGN_IN_PATH, undefined, address);
    expect(signIn.status).toBe(200);
  });

  it('can change its notifications a fifteenth as often as its settings', async () => {
    const wallet = environment.newWallet();
    const change = () => sendSigned(wallet, 'PUT', NOTIFICATIONS_PATH, { channels: [] });
    expect((await change()).status).toBe(200);
    expectTooManyRequests(await change(), 'Too many changes of notifications with this key.');
    expect((await sendSigned(wallet, 'GET', NOTIFICATIONS_PATH)).status).toBe(200);
  });

  it('that requests usernames too often gets 429, first for its key and then for its address', async () => {
    const wallet = environment.newWallet();
    const buy = (address?: string) =>
      sendSigned(wallet, 'POST', USERNAME_PATH, { username: 'alice' }, address);
    for (let count = 0; count < MAX_PURCHASES; count++) {
      expect((await buy()).status).toBe(402);
    }
    expectTooManyRequests(await buy(), 'Too many requests for usernames with this key.');
    const address = newAddress();
    for (let count = 0; count < MAX_PURCHASES; count++) {
      await buy(address);
    }
    expectTooManyRequests(
      await buy(address),
      'Too many requests for usernames from your IP address.',
    );
  });

  it('that sends too many requests gets 429, with a bearer token and with a signature', async () => {
    const wallet = environment.newWallet();
    const { body } = await sendSigned(wallet, 'GET', SIGN_IN_PATH);
    const headers = { authorization: `Bearer ${body.data.token}` };
    for (let count = 1; count < MAX_REQUESTS; count++) {
      expect((await sendFrom(USER_PATH, newAddress(), { headers })).status).toBe(200);
    }
    for (const rejected of [
      await sendFrom(USER_PATH, newAddress(), { headers }),
      await sendSigned(wallet, 'GET', USER_PATH),
    ]) {
      expectTooManyRequests(rejected, 'Too many requests with this key.');
    }
  });

  it('is not limited by forged requests that name its public key', async () => {
    const wallet = environment.newWallet();
    const forger = environment.newWallet();
    const event = { ...forger.createNip98Event(USER_PATH, 'GET'), pubkey: wallet.pubkey };
    const authorization = `Nostr ${Buffer.from(JSON.stringify(event)).toString('base64')}`;
    for (let count = 0; count < MAX_REQUESTS; count++) {
      const { status } = await sendFrom(USER_PATH, newAddress(), { headers: { authorization } });
      expect(status).toBe(401);
    }
    expect((await sendSigned(wallet, 'GET', USER_PATH)).status).toBe(200);
  });
});

it('recognizes a client behind a trusted proxy by the last address in X-Forwarded-For', async () => {
  const env = { TRUST_PROXY: '127.0.0.1,10.0.0.0/8', ...ONE_REQUEST_ENV };
  const service = await useAdditionalService(environment, env);
  for (const [addresses, status] of [
    ['203.0.113.1, 198.51.100.1', 200],
    ['203.0.113.2, 198.51.100.1', 429],
    [`${'x,'.repeat(25_000)} 198.51.100.1`, 429],
    ['::ffff:198.51.100.1', 429],
    ['198.51.100.2', 200],
    ['2001:db8:1:1::1', 200],
    ['2001:db8:1:1:ffff::2', 429],
    ['2001:db8:1:2::1', 200],
  ] as const) {
    expect(await fetchStatus(service, addresses), addresses.slice(-40)).toBe(status);
  }
  const response = await sendRawBytes(
    service.url,
    `GET ${INFO_PATH} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n` +
      'X-Forwarded-For: 203.0.113.3\r\nX-Forwarded-For: 198.51.100.2\r\n\r\n',
  );
  expect(response).toMatch(/^HTTP\/1.1 429 /);
});

it('counts all clients behind an untrusted proxy as one and logs once which setting to change', async () => {
  const logCapture = new LogCapture('warn');
  const findHints = () => logCapture.lines.filter((line) => line.includes('TRUST_PROXY'));
  const service = await useAdditionalService(environment, ONE_REQUEST_ENV, { log: logCapture.log });
  expect((await sendRawRequest(service.url, INFO_PATH)).status).toBe(200);
  expect(findHints()).toEqual([]);

  for (const address of ['198.51.100.1', '203.0.113.7', '127.0.0.1', 'garbage']) {
    expect(await fetchStatus(service, address)).toBe(429);
  }
  const hints = findHints();
  expect(hints).toHaveLength(1);
  expect(hints[0]).toContain('set TRUST_PROXY=127.0.0.1');
  expect(hints[0]).not.toContain('198.51.100.1');
});

async function fetchStatus({ url }: Service, forwardedFor: string): Promise<number> {
  const headers = { 'x-forwarded-for': forwardedFor };
  return (await sendRawRequest(url, INFO_PATH, { headers })).status;
}

function newAddress(): string {
  addressCount += 1;
  return `198.18.${addressCount >> 8}.${addressCount & 255}`;
}

function sendFrom(path: string, address: string, options: RawRequest = {}): Promise<ApiResponse> {
  return sendRawRequest(environment.service.url, path, {
    ...options,
    headers: { 'user-agent': 'test', 'x-forwarded-for': address, ...options.headers },
  });
}

async function sendRepeatedly(
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

function sendSigned(
  wallet: RecipientClient,
  method: 'GET' | 'PATCH' | 'POST' | 'PUT',
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

function expectTooManyRequests({ status, headers, body }: ApiResponse, reason: string): void {
  const seconds = Number(headers.get('retry-after'));
  expect(body.message ?? body.reason).toBe(`${reason} Try again in ${seconds} s.`);
  expect(status).toBe(429);
  expect(seconds).toBeGreaterThanOrEqual(1);
  expect(seconds).toBeLessThanOrEqual(WINDOW_SECONDS);
  expect(headers.get('access-control-allow-origin')).toBe('*');
  expect(headers.get('content-type')).toMatch(/^application\/json/);
}
