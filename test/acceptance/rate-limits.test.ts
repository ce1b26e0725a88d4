import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type PlainRequest, plainRequest } from '../helpers/plain-http.ts';
import { TestClock } from '../helpers/test-clock.ts';
import type { ApiAnswer, TestWallet } from '../helpers/wallet.ts';
import { openWorld, type World } from '../helpers/world.ts';

/** Strangers may ask as often as the operator lets them, and are told when to come back. */

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
let world: World;
let addresses = 0;

beforeAll(async () => {
  world = await openWorld({
    surroundings: { clock: clock.now },
    env: {
      TRUST_PROXY: '127.0.0.1',
      LIMIT_REQUESTS: String(REQUESTS),
      LIMIT_INVOICES: String(INVOICES),
      LIMIT_CHANGES: String(CHANGES),
      LIMIT_PURCHASES: String(PURCHASES),
      USERNAME_PRICE_SAT: '21',
    },
  });
});

afterAll(() => world.close());

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

  it('is one address with everything of its /64', async () => {
    const network = newIpv6Network();
    for (let host = 0; host < REQUESTS; host++) {
      expect((await ask(INFO, `${network}:${host}::1`)).status).toBe(200);
    }
    expect((await ask(INFO, `${network}::ffff`)).status).toBe(429);
    expect((await ask(INFO, newIpv6Network().concat('::1'))).status).toBe(200);
  });

  it('is refused before its signature is looked at', async () => {
    const address = newAddress();
    await askTimes(REQUESTS, USER, address);
    expectTooMany(await ask(USER, address), 'Too many requests from this address.');
  });

  it('is refused before its body has come', async () => {
    const address = newAddress();
    await askTimes(REQUESTS, INFO, address);
    const { hostname, port } = new URL(world.service.url);
    const socket = connect(Number(port), hostname);
    socket.write(
      `PATCH ${LOCK} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${address}\r\nContent-Length: 1000\r\n\r\n{`,
    );
    const [answer] = await once(socket, 'data');
    expect(String(answer)).toMatch(/^HTTP\/1.1 429 /);
    socket.destroy();
  });

  it('gets no quote socket, but an answer that its client can read', async () => {
    const address = newAddress();
    expect(await shakeHands(address)).toMatch(/^HTTP\/1.1 101 /);
    await askTimes(REQUESTS - 1, INFO, address);
    const refused = await shakeHands(address);
    expect(refused).toMatch(/^HTTP\/1.1 429 /);
    expect(refused).toMatch(/\r\nretry-after: \d+\r\n/i);
    expect(refused).toMatch(/"error":true,"message":"Too many requests from this address\./);
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

  it('may look an address up more often than it may ask for invoices', async () => {
    const address = newAddress();
    const path = `/.well-known/lnurlp/${world.newWallet().npub}`;
    await askTimes(INVOICES, `${path}?amount=21000`, address);
    expect((await ask(path, address)).body.tag).toBe('payRequest');
    const head = await ask(`${path}?amount=21000`, address, { method: 'HEAD' });
    expect(head.status).toBe(200);
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

function setLock(wallet: TestWallet, address: string): Promise<ApiAnswer> {
  return send(wallet, 'PATCH', LOCK, { lockQuotes: false }, address);
}

/** An address that nobody has asked from. */
function newAddress(): string {
  addresses += 1;
  return `198.18.${addresses >> 8}.${addresses & 255}`;
}

/** The first half of IPv6 addresses that nobody has asked from. */
function newIpv6Network(): string {
  addresses += 1;
  return `2001:db8:0:${addresses}`;
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

/** What comes back to a WebSocket handshake before the connection is done with. */
async function shakeHands(address: string): Promise<string> {
  const { hostname, port } = new URL(world.service.url);
  const socket = connect(Number(port), hostname);
  socket.write(
    `GET /api/v2/ws/quote HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${address}\r\n` +
      'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n' +
      `Sec-WebSocket-Key: ${Buffer.alloc(16).toString('base64')}\r\n\r\n`,
  );
  socket.once('data', (answer) => {
    // A quote socket stays open until its client leaves; a refusal is ended by the server.
    if (String(answer).startsWith('HTTP/1.1 101 ')) {
      socket.end();
    }
  });
  return await text(socket);
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
