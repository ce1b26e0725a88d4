import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Service } from '../../src/service.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { type PlainRequest, plainRequest, sendBytes } from '../helpers/plain-http.ts';
import { TestClock } from '../helpers/test-clock.ts';
import type { ApiAnswer, TestWallet } from '../helpers/wallet.ts';
import { serveBeside, startBeside, useWorld } from '../helpers/world.ts';
import { TEST_ZAP_SECRET_KEY } from '../helpers/zap-requests.ts';

/** Rate limits, and which client a request counts for. */

/** The second request of a client is rejected: that shows who is taken for whom. */
const ONE_REQUEST = { LIMIT_REQUESTS: '1' };
const HINT = 'TRUST_PROXY';

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
const world = useWorld({
  surroundings: { monotonicMs: clock.now },
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
let addresses = 0;

describe('an address that asks too often', () => {
  it.each([
    ['the API', INFO, { error: true, message: expect.any(String) }],
    [
      'a Lightning address',
      '/.well-known/lnurlp/x',
      { status: 'ERROR', reason: expect.any(String) },
    ],
    ['a verify url', '/lnurl/verify/x', { status: 'ERROR', reason: expect.any(String) }],
    ['a name lookup', '/.well-known/nostr.json', { error: true, message: expect.any(String) }],
    ['what is not there', '/nowhere', { error: true, message: expect.any(String) }],
  ])('for %s is refused in its way, and told when to come back', async (_what, path, body) => {
    const address = newAddress();
    for (const answer of await askTimes(REQUESTS, path, address)) {
      expect(answer.status).not.toBe(429);
    }
    const refused = await ask(path, address);
    expectTooMany(refused, 'Too many requests from this address.');
    expect(refused.body).toEqual(body);
    expect((await ask(path, newAddress())).status).not.toBe(429);
  });

  it('is served again when it was told to come back, though it went on asking', async () => {
    const address = newAddress();
    await askTimes(REQUESTS, INFO, address);
    clock.advance(20_000);
    const refused = await ask(INFO, address);
    expect(refused.headers.get('retry-after')).toBe('40');
    clock.advance(39_000);
    expect((await ask(INFO, address)).headers.get('retry-after')).toBe('1');
    clock.advance(1_000);
    for (const { status } of await askTimes(REQUESTS, INFO, address)) {
      expect(status).toBe(200);
    }
    expect((await ask(INFO, address)).status).toBe(429);
  });
});

describe('a web page', () => {
  it('is answered whether it may ask, however often; and that counts', async () => {
    const address = newAddress();
    for (const { status } of await askTimes(REQUESTS + 1, USER, address, { method: 'OPTIONS' })) {
      expect(status).toBe(204);
    }
    const refused = await ask(USER, address);
    expectTooMany(refused, 'Too many requests from this address.');
    expect(refused.headers.get('access-control-expose-headers')).toContain('Retry-After');
  });
});

describe('a payer', () => {
  it('that asks for too many invoices is told when to come back, and another one is not', async () => {
    const address = newAddress();
    const path = `/.well-known/lnurlp/${world.newWallet().npub}`;
    for (const { body } of await askTimes(INVOICES, `${path}?amount=21000`, address)) {
      expect(body.pr).toMatch(/^ln/);
    }
    const created = invoicesMade();
    const refused = await ask(`${path}?amount=21000`, address);
    expectTooMany(refused, 'Too many requests for invoices from this address.');
    expect(invoicesMade()).toBe(created);
    expect((await ask(`${path}?amount=21000`, newAddress())).body.pr).toMatch(/^ln/);
  });
});

describe('a wallet', () => {
  it('that changes settings too often is refused, wherever it asks from', async () => {
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

  it('does not get around it with the keys that it has', async () => {
    const address = newAddress();
    for (let count = 0; count < CHANGES; count++) {
      expect((await setLock(world.newWallet(), address)).status).toBe(200);
    }
    const refused = await setLock(world.newWallet(), address);
    expectTooMany(refused, 'Too many changes from this address.');
    // As many wallets as share an address sign in after a restart of the service.
    const another = await send(world.newWallet(), 'GET', SIGN_IN, undefined, address);
    expect(another.status).toBe(200);
  });

  it('that asks too often for names is refused, wherever it asks from', async () => {
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

  it('that asks too often is refused, by its token as by its signature', async () => {
    const wallet = world.newWallet();
    const { body } = await send(wallet, 'GET', SIGN_IN);
    const headers = { authorization: `Bearer ${body.data.token}` };
    for (let count = 1; count < REQUESTS; count++) {
      expect((await ask(USER, newAddress(), { headers })).status).toBe(200);
    }
    expectTooMany(await ask(USER, newAddress(), { headers }), 'Too many requests with this key.');
    expectTooMany(await send(wallet, 'GET', USER), 'Too many requests with this key.');
  });

  it('loses nothing of its own to somebody who only knows its key', async () => {
    const wallet = world.newWallet();
    const forger = world.newWallet();
    const event = { ...forger.signedEvent(USER, 'GET'), pubkey: wallet.pubkey };
    const authorization = `Nostr ${Buffer.from(JSON.stringify(event)).toString('base64')}`;
    for (let count = 0; count < REQUESTS; count++) {
      const { status } = await ask(USER, newAddress(), { headers: { authorization } });
      expect(status).toBe(401);
    }
    expect((await send(wallet, 'GET', USER)).status).toBe(200);
  });
});

describe('behind a proxy that is trusted', () => {
  let service: Service;

  beforeAll(async () => {
    const env = { TRUST_PROXY: '127.0.0.1,10.0.0.0/8', ...ONE_REQUEST };
    service = await startBeside(world, env);
  });

  afterAll(() => service.stop());

  it.each([
    ['after made-up addresses', '203.0.113.1, 198.51.100.1', '203.0.113.2, 198.51.100.1', true],
    ['after the address of our proxy', '10.0.0.1, 198.51.100.2', '198.51.100.2', true],
    ['after garbage', `${'x,'.repeat(25_000)} 198.51.100.3`, '198.51.100.3', true],
    ['behind several proxies', '198.51.100.10', '203.0.113.1, 198.51.100.10, 10.0.0.7', true],
    ['with a port', '198.51.100.11:4711', '198.51.100.11:4712', true],
    ['as IPv4 in IPv6', '198.51.100.12', '::ffff:198.51.100.12', true],
    ['from elsewhere in its /64', '2001:db8:1:1::1', '2001:db8:1:1:ffff::2', true],
    ['in brackets with a port', '2001:db8:1:3::1', '[2001:db8:1:3::1]:4712', true],
    ['at another address', '198.51.100.20', '198.51.100.21', false],
    ['in another /64', '2001:db8:2:1::1', '2001:db8:2:2::1', false],
    ['before another address', '198.51.100.22', '198.51.100.22, 198.51.100.23', false],
  ])('a client %s is the same one: %s, %s: %s', async (_how, first, second, expected) => {
    expect(await areOne(service, first, second)).toBe(expected);
  });

  it('a client has the last address of a header that comes twice', async () => {
    const head = `GET ${INFO} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n`;
    for (const [spoofed, status] of [
      ['203.0.113.1', '200'],
      ['203.0.113.2', '429'],
    ]) {
      const answer = await sendBytes(
        service.url,
        `${head}X-Forwarded-For: ${spoofed}\r\nX-Forwarded-For: 198.51.100.30\r\n\r\n`,
      );
      expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    }
  });
});

it('behind a proxy that is not trusted all clients are one, and the log says once what to set', async () => {
  const log = new LogCapture('warn');
  const service = await serveBeside(world, ONE_REQUEST, { log: log.log });
  expect((await plainRequest(service.url, INFO)).status).toBe(200);
  expect(log.lines.filter((line) => line.includes(HINT))).toEqual([]);

  for (const address of ['198.51.100.1', '203.0.113.7', '127.0.0.1', 'garbage']) {
    expect(await statusFor(service, address)).toBe(429);
  }
  const hints = log.lines.filter((line) => line.includes(HINT));
  expect(hints).toHaveLength(1);
  expect(hints[0]).toContain('set TRUST_PROXY=127.0.0.1');
  expect(hints[0]).not.toContain('198.51.100.1');
});

/** Whether the service takes them for one client, by what a proxy says of them. */
async function areOne(service: Service, first: string, second: string): Promise<boolean> {
  expect(await statusFor(service, first)).toBe(200);
  return (await statusFor(service, second)) === 429;
}

async function statusFor({ url }: Service, forwardedFor: string): Promise<number> {
  const headers = { 'x-forwarded-for': forwardedFor };
  return (await plainRequest(url, INFO, { headers })).status;
}

function setLock(wallet: TestWallet, address: string): Promise<ApiAnswer> {
  return send(wallet, 'PATCH', LOCK, { lockQuotes: false }, address);
}

/** An address that nobody has asked from. */
function newAddress(): string {
  addresses += 1;
  return `198.18.${addresses >> 8}.${addresses & 255}`;
}

function ask(path: string, address: string, options: PlainRequest = {}): Promise<ApiAnswer> {
  return plainRequest(world.service.url, path, {
    ...options,
    headers: { 'user-agent': 'test', 'x-forwarded-for': address, ...options.headers },
  });
}

async function askTimes(
  times: number,
  path: string,
  address: string,
  options?: PlainRequest,
): Promise<ApiAnswer[]> {
  const answers: ApiAnswer[] = [];
  for (let count = 0; count < times; count++) {
    answers.push(await ask(path, address, options));
  }
  return answers;
}

/** A signed request, by default from an address that nobody has asked from. */
function send(
  wallet: TestWallet,
  method: 'GET' | 'PATCH' | 'POST',
  path: string,
  body?: object,
  address = newAddress(),
): Promise<ApiAnswer> {
  return ask(path, address, {
    method,
    headers: { authorization: wallet.sign(path, method), 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  });
}

function invoicesMade(): number {
  return world.mint.requestCounts['POST /v1/mint/quote/bolt11'] ?? 0;
}

function expectTooMany({ status, headers, body }: ApiAnswer, what: string): void {
  const seconds = Number(headers.get('retry-after'));
  expect(body.message ?? body.reason).toBe(`${what} Try again in ${seconds} s.`);
  expect(status).toBe(429);
  expect(seconds).toBeGreaterThanOrEqual(1);
  expect(seconds).toBeLessThanOrEqual(60);
  expect(headers.get('access-control-allow-origin')).toBe('*');
  expect(headers.get('content-type')).toMatch(/^application\/json/);
}
