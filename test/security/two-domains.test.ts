import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { isIPv6 } from 'node:net';
import { text } from 'node:stream/consumers';
import type { TLSSocket } from 'node:tls';
import { getEncodedToken } from '@cashu/cashu-ts';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { WebSocket } from 'ws';
import {
  PROXY_ADDRESSES,
  REVERSE_PROXIES,
  type ReverseProxyKind,
} from '../../scripts/reverse-proxy.ts';
import type { ServiceOverrides } from '../../src/service.ts';
import { EcashPayer } from '../helpers/ecash-payer.ts';
import { assignTestMint, useTestEnvironment } from '../helpers/test-environment.ts';
import { requestJson, TestQuoteSocket, type TestWallet } from '../helpers/test-wallet.ts';
import {
  connectToProxy,
  requestThroughProxy,
  startTwoDomainService,
  type TwoDomainService,
} from '../helpers/two-domain-service.ts';
import { buyUsername, fetchUsernameOwner } from '../helpers/username-buyer.ts';

/** One service on two domains (spec.md section 9), behind each example of docs/proxies/, with TLS. */

const LIST = '/api/v2/wallet/quotes';
const SOCKET = '/api/v2/ws/quote';

const PRICE_SAT = 21;

/** More than the tests request from one address, except the test of this limit. */
const INVOICES_A_MINUTE = 12;

/** Longer than a token that pays for a name, and than most programs accept in a header. */
const LONG_MEMO = 'm'.repeat(20 * 1024);

/** The idle timeouts of the examples; Caddy has none. */
const IDLE_SOCKET_TIMEOUTS = [
  ['nginx', 'proxy_read_timeout 120s'],
  ['haproxy', 'timeout tunnel 120s'],
] as const;

/** Several pings, each of which needs a pong before the next. A busy machine may be slow. */
const PATIENCE = '4s';
const HEARTBEAT_MS = 1_000;

/** Another service of the world may watch the mint, and finds new quotes when it scans. */
const LOOKS_OFTEN: ServiceOverrides = { scanIntervalMs: 5 };

/** A client's IPv6 address, if this machine has IPv6. */
const IPV6_CLIENTS = PROXY_ADDRESSES.filter(isIPv6);

/** The connection limits of the examples; Caddy has none. */
const CONNECTION_BOUNDS = { nginx: 'limit_conn nutpost 250', haproxy: 'sc0_conn_cur gt 250' };

const HEADER_TIMEOUTS = [
  ['nginx', 'client_header_timeout 10s'],
  ['haproxy', 'timeout http-request 10s'],
  ['caddy', 'read_header 10s'],
] as const;

/** An RFC 6455 close code. */
const ABNORMAL_CLOSURE = 1006;

const world = useTestEnvironment({ overrides: LOOKS_OFTEN });

describe.each(REVERSE_PROXIES)('two domains of one service behind %s', (kind) => {
  let domains: TwoDomainService;
  let one: string;
  let two: string;

  beforeAll(async () => {
    domains = await startTwoDomainService(world, kind, {
      overrides: LOOKS_OFTEN,
      env: { USERNAME_PRICE_SAT: String(PRICE_SAT), LIMIT_INVOICES: String(INVOICES_A_MINUTE) },
    });
    ({ canonicalOrigin: one, secondOrigin: two } = domains);
  });
  afterAll(() => domains?.close());

  it('share payments: a payment on one is listed and announced on the other', async () => {
    const wallet = world.newWallet().withOrigin(two);
    const mint = await assignTestMint(wallet);
    const socket = await wallet.openSocket();
    onTestFinished(() => socket.close());
    const invoice = await askInvoice(one, wallet);
    expect(invoice.verify).toMatch(new RegExp(`^${one}/lnurl/verify/[0-9a-f]{64}$`));
    mint.pay(invoice.pr);

    const { payload } = await socket.nextMessage();
    const [quote] = await wallet.listQuotes();
    expect(quote).toMatchObject({ ...payload, request: invoice.pr, state: 'PAID', amount: 21 });
    expect(await wallet.withOrigin(one).listQuotes()).toEqual([quote]);
    for (const origin of [one, two]) {
      const { body } = await requestJson(origin, new URL(invoice.verify).pathname);
      expect(body.settled).toBe(true);
    }
  });

  it('accept a signature for either domain only', async () => {
    const wallet = world.newWallet();
    const { port } = new URL(one);
    const statusOf = async (origin: string, signedOrigin: string) => {
      const authorization = wallet.signRequest(LIST, 'GET', { url: `${signedOrigin}${LIST}` });
      return (await requestJson(origin, LIST, { headers: { authorization } })).status;
    };
    for (const signed of [one, two]) {
      expect(await statusOf(one, signed)).toBe(200);
      expect(await statusOf(two, signed)).toBe(200);
    }
    for (const signed of [
      `https://three.example:${port}`,
      'https://one.example',
      `http://one.example:${port}`,
      `https://one.example.:${port}`,
      `https://one.example:${port}@two.example:${port}`,
      domains.directUrl,
    ]) {
      expect([signed, await statusOf(one, signed)]).toEqual([signed, 401]);
    }
  });

  it('each request a signature of their own quote socket URL, and accept either', async () => {
    for (const [origin, other] of [
      [one, two],
      [two, one],
    ] as const) {
      const socket = new TestQuoteSocket(origin);
      onTestFinished(() => socket.close());
      expect(await socket.nextMessage()).toEqual({
        type: 'challenge',
        payload: { url: `${origin}${SOCKET}`, method: 'GET' },
      });
      socket.send('challenge-response', world.newWallet().withOrigin(other).signRequest(SOCKET));
      expect(await socket.nextMessage()).toEqual({ type: 'challenge-success' });
    }
  });

  it('sell a name once, for a long token too, as an address on both', async () => {
    const wallet = world.newWallet().withOrigin(one);
    const name = `alice${kind}`;
    const payer = await EcashPayer.open(world.mint);
    const token = getEncodedToken({
      mint: world.mint.url,
      unit: 'sat',
      proofs: await payer.mintProofs(PRICE_SAT),
      memo: LONG_MEMO,
    });
    expect(token.length).toBeGreaterThan(20 * 1024);
    const offer = await buyUsername(wallet, name);
    expect(offer.status).toBe(402);
    expect(offer.headers.get('x-cashu')).toMatch(/^creqA/);
    const bought = await buyUsername(wallet, name, token);
    expect(bought).toMatchObject({ status: 201, body: { data: { user: { name } } } });

    expect((await buyUsername(world.newWallet().withOrigin(two), name)).status).toBe(409);
    for (const origin of [one, two]) {
      expect(await fetchUsernameOwner(origin, name)).toBe(wallet.pubkey);
      const { body } = await requestJson(origin, `/.well-known/lnurlp/${name.toUpperCase()}`);
      expect(body.metadata).toContain(`${name}@${new URL(origin).host}`);
    }
  });

  it('let web pages read every response, errors included', async () => {
    const origin = 'https://wallet.example';
    const preflight = await requestThroughProxy(two, LIST, {
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': 'PATCH',
        'access-control-request-headers': 'authorization,x-cashu',
      },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get('access-control-allow-origin')).toBe('*');
    expect(preflight.headers.get('access-control-allow-methods')).toContain('PATCH');
    expect(preflight.headers.get('access-control-allow-headers')).toContain('X-Cashu');
    const refused = await requestThroughProxy(two, LIST, { headers: { origin } });
    expect(refused.status).toBe(401);
    expect(refused.headers.get('access-control-allow-origin')).toBe('*');
    expect(refused.headers.get('access-control-expose-headers')).toContain('X-Cashu');
  });

  it('support HTTP/2', async () => {
    const wallet = world.newWallet().withOrigin(two);
    const session = connectHttp2(two);
    onTestFinished(() => session.close());
    await once(session, 'connect');
    expect(session.alpnProtocol).toBe('h2');
    const ask = async (path: string, headers: Record<string, string> = {}) => {
      const stream = session.request({ ':path': path, ...headers });
      return JSON.parse(await text(stream));
    };
    const [offer, list, challenged] = await Promise.all([
      ask(`/.well-known/lnurlp/${wallet.npub}`),
      ask(LIST, { authorization: wallet.signRequest(LIST) }),
      ask(LIST, { authorization: 'Nostr x', 'x-cashu': LONG_MEMO }),
    ]);
    expect(offer.callback).toBe(`${two}/.well-known/lnurlp/${wallet.npub}`);
    expect(list).toMatchObject({ error: false, metadata: { total: 0 } });
    expect(challenged).toMatchObject({ error: true });
  });

  it('count requests by the client’s real address, not by a forged one', async () => {
    const { npub } = world.newWallet();
    let requests = 0;
    const statusOf = async (from: string) => {
      const target = `/.well-known/lnurlp/${npub}?amount=1000`;
      requests += 1;
      const address = `192.0.2.${requests}`;
      const headers = {
        'x-forwarded-for': address,
        'x-real-ip': address,
        forwarded: `for=${address}`,
      };
      return (await requestThroughProxy(one, target, { from, headers })).status;
    };
    for (const client of ['127.0.0.2', ...IPV6_CLIENTS]) {
      for (let asked = 0; asked < INVOICES_A_MINUTE; asked += 1) {
        expect(await statusOf(client)).toBe(200);
      }
      expect(await statusOf(client)).toBe(429);
    }
    expect(await statusOf('127.0.0.3')).toBe(200);
  });
});

describe('an idle quote socket', () => {
  it('outlives the timeout of a proxy because of the pings of the service', async () => {
    const open = async (
      kind: ReverseProxyKind,
      timeout: string,
      surroundings: ServiceOverrides,
    ) => {
      const changes = [[timeout, timeout.replace('120s', PATIENCE)]] as const;
      const { canonicalOrigin: one, close } = await startTwoDomainService(world, kind, {
        overrides: surroundings,
        proxyConfigReplacements: changes,
      });
      onTestFinished(close);
      const socket = new TestQuoteSocket(one);
      // A proxy may reset the connection.
      socket.connection.on('error', () => undefined);
      return socket;
    };
    const opened: { pinged: TestQuoteSocket; silent: TestQuoteSocket }[] = [];
    for (const [kind, timeout] of IDLE_SOCKET_TIMEOUTS) {
      const pinged = await open(kind, timeout, { socketHeartbeatIntervalMs: HEARTBEAT_MS });
      opened.push({ pinged, silent: await open(kind, timeout, {}) });
    }
    for (const { pinged, silent } of opened) {
      expect(await silent.waitForClose()).toBe(ABNORMAL_CLOSURE);
      expect(pinged.connection.readyState).toBe(WebSocket.OPEN);
      await once(pinged.connection, 'ping');
    }
  });
});

describe('a client that exceeds a limit', () => {
  it.each([
    ['quote sockets', 'nginx', opensSocket],
    ['quote sockets', 'haproxy', opensSocket],
    ['connections for half-sent requests', 'haproxy', holdsHalfRequest],
  ] as const)('gets a limited number of %s from %s', async (_what, kind, opens) => {
    const bound = CONNECTION_BOUNDS[kind];
    const changes = [[bound, bound.replace('250', '3')]] as const;
    const { canonicalOrigin: one, close } = await startTwoDomainService(world, kind, {
      proxyConfigReplacements: changes,
    });
    onTestFinished(close);
    for (const client of ['127.0.0.4', ...IPV6_CLIENTS]) {
      for (const isOpened of [true, true, true, false]) {
        expect(await opens(one, client)).toBe(isOpened);
      }
    }
    expect(await opens(one, '127.0.0.5')).toBe(true);
  });

  it('gets an error from nginx that payers and wallets can read', async () => {
    const bound = CONNECTION_BOUNDS.nginx;
    const { canonicalOrigin: one, close } = await startTwoDomainService(world, 'nginx', {
      proxyConfigReplacements: [[bound, bound.replace('250', '1')]],
    });
    onTestFinished(close);
    expect(await opensSocket(one, '127.0.0.4')).toBe(true);
    const refused = await requestThroughProxy(one, LIST, { from: '127.0.0.4' });
    expect(refused.status).toBe(429);
    expect(refused.headers.get('retry-after')).toBe('10');
    expect(refused.headers.get('access-control-allow-origin')).toBe('*');
    expect(refused.headers.get('content-type')).toMatch(/^application\/json/);
    expect(JSON.parse(refused.text)).toMatchObject({ error: true, status: 'ERROR' });
  });

  it.each(HEADER_TIMEOUTS)(
    'cannot hold connections of %s with half-sent requests',
    async (kind, timeout) => {
      const changes = [[timeout, timeout.replace('10s', '500ms')]] as const;
      const { canonicalOrigin: one, close } = await startTwoDomainService(world, kind, {
        proxyConfigReplacements: changes,
      });
      onTestFinished(close);
      const halves = Array.from({ length: 20 }, () => sendHalfRequest(one, '127.0.0.6'));
      for (const said of await Promise.all(halves.map((half) => text(half)))) {
        expect(said).toMatch(/^(?:$|HTTP\/1\.[01] 408 )/);
      }
    },
  );
});

/** Opens a quote socket and keeps it open. @returns whether it opened */
function opensSocket(origin: string, client: string): Promise<boolean> {
  const socket = new WebSocket(`${origin.replace('https:', 'wss:')}${SOCKET}`, {
    createConnection: () => connectToProxy(origin, client),
  });
  onTestFinished(() => socket.terminate());
  return once(socket, 'open').then(
    () => true,
    () => false,
  );
}

/** Sends half a request and keeps the connection. @returns whether it opened */
function holdsHalfRequest(origin: string, client: string): Promise<boolean> {
  return once(sendHalfRequest(origin, client), 'secureConnect').then(
    () => true,
    () => false,
  );
}

/** A request whose headers never end. */
function sendHalfRequest(origin: string, client: string): TLSSocket {
  const connection = connectToProxy(origin, client);
  onTestFinished(() => void connection.destroy());
  connection.write(`GET ${LIST} HTTP/1.1\r\nHost: ${new URL(origin).host}\r\n`);
  return connection;
}

/** A payer's invoice for 21 sat. */
async function askInvoice(
  origin: string,
  { npub }: TestWallet,
): Promise<{ pr: string; verify: string }> {
  return (await requestJson(origin, `/.well-known/lnurlp/${npub}?amount=21000`)).body;
}
