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
import { EcashPayer } from '../helpers/recipients/ecash-payer.ts';
import {
  type RecipientClient,
  requestJson,
  TestQuoteSocket,
} from '../helpers/recipients/recipient-client.ts';
import { fetchUsernameOwner, requestUsername } from '../helpers/recipients/username-requests.ts';
import {
  connectToProxy,
  requestThroughProxy,
  type ServiceBehindProxy,
  startServiceBehindProxy,
} from '../helpers/service/service-behind-proxy.ts';
import { assignNewTestMint, useTestEnvironment } from '../helpers/service/test-environment.ts';

/** These tests run each example configuration of docs/proxies/ in a real proxy, with TLS. */

const QUOTES_PATH = '/api/v2/wallet/quotes';
const SOCKET_PATH = '/api/v2/ws/quote';

/** Only the test of this limit requests as many invoices from one address. */
const MAX_INVOICES_PER_MINUTE = 12;

/** Makes a token longer than most programs accept in a header. */
const LONG_MEMO = 'm'.repeat(11_000);

/** The idle timeouts in the example configurations. Caddy has none. */
const IDLE_SOCKET_TIMEOUTS = [
  ['nginx', 'proxy_read_timeout 120s'],
  ['haproxy', 'timeout tunnel 120s'],
] as const;

/** Several heartbeats long, because a busy machine may delay some of them. */
const SHORT_IDLE_TIMEOUT = '4s';
const HEARTBEAT_INTERVAL_MS = 1_000;

/** If another service of these tests has the lease of the mint, that service finds new quotes in its next scan. */
const FREQUENT_SCANS: ServiceOverrides = { scanIntervalMs: 5 };

const IPV6_CLIENT_ADDRESSES = PROXY_ADDRESSES.filter(isIPv6);

/** The connection limits in the example configurations. Caddy has none. */
const CONNECTION_LIMITS = { nginx: 'limit_conn nutpost 250', haproxy: 'sc0_conn_cur gt 250' };

/** The timeouts for request headers in the example configurations. */
const HEADER_TIMEOUTS = [
  ['nginx', 'client_header_timeout 10s'],
  ['haproxy', 'timeout http-request 10s'],
  ['caddy', 'read_header 10s'],
] as const;

const environment = useTestEnvironment({ overrides: FREQUENT_SCANS });

describe.each(REVERSE_PROXIES)('a service with two domains behind %s', (kind) => {
  let service: ServiceBehindProxy;
  let canonicalOrigin: string;
  let secondOrigin: string;

  beforeAll(async () => {
    service = await startServiceBehindProxy(environment, kind, {
      overrides: FREQUENT_SCANS,
      env: {
        USERNAME_PRICE_SAT: '21',
        LIMIT_INVOICES: String(MAX_INVOICES_PER_MINUTE),
      },
    });
    ({ canonicalOrigin, secondOrigin } = service);
  });
  afterAll(() => service?.close());

  it('reports on both domains the payment of an invoice that one of them returned', async () => {
    const wallet = environment.newWallet().withOrigin(secondOrigin);
    const mint = await assignNewTestMint(wallet);
    const socket = await wallet.openSocket();
    onTestFinished(() => socket.close());
    const invoice = await requestInvoice(canonicalOrigin, wallet);
    expect(invoice.verify).toMatch(new RegExp(`^${canonicalOrigin}/lnurl/verify/[0-9a-f]{64}$`));
    mint.pay(invoice.pr);

    const { payload } = await socket.nextMessage();
    const [quote] = await wallet.listPaidQuotes();
    expect(quote).toMatchObject({ ...payload, request: invoice.pr, state: 'PAID', amount: 21 });
    expect(await wallet.withOrigin(canonicalOrigin).listPaidQuotes()).toEqual([quote]);
    for (const origin of [canonicalOrigin, secondOrigin]) {
      const { body } = await requestJson(origin, new URL(invoice.verify).pathname);
      expect(body.settled).toBe(true);
    }
  });

  it('requests a signature for the quote socket URL of the same domain, and also accepts one for the other domain', async () => {
    for (const [origin, other] of [
      [canonicalOrigin, secondOrigin],
      [secondOrigin, canonicalOrigin],
    ] as const) {
      const socket = new TestQuoteSocket(origin);
      onTestFinished(() => socket.close());
      expect(await socket.nextMessage()).toEqual({
        type: 'challenge',
        payload: { url: `${origin}${SOCKET_PATH}`, method: 'GET' },
      });
      socket.send(
        'challenge-response',
        environment.newWallet().withOrigin(other).signRequest(SOCKET_PATH),
      );
      expect(await socket.nextMessage()).toEqual({ type: 'challenge-success' });
    }
  });

  it('accepts a long payment token for a username, which then works on both domains', async () => {
    const wallet = environment.newWallet().withOrigin(canonicalOrigin);
    const name = `alice${kind}`;
    const payer = await EcashPayer.open(environment.mint);
    const token = getEncodedToken({
      mint: environment.mint.url,
      unit: 'sat',
      proofs: await payer.mintProofs(21),
      memo: LONG_MEMO,
    });
    expect(token.length).toBeGreaterThan(14 * 1024);
    const unpaid = await requestUsername(wallet, name);
    expect(unpaid.status).toBe(402);
    expect(unpaid.headers.get('x-cashu')).toMatch(/^creqA/);
    const paid = await requestUsername(wallet, name, token);
    expect(paid).toMatchObject({ status: 201, body: { data: { user: { name } } } });

    expect(
      (await requestUsername(environment.newWallet().withOrigin(secondOrigin), name)).status,
    ).toBe(409);
    for (const origin of [canonicalOrigin, secondOrigin]) {
      expect(await fetchUsernameOwner(origin, name)).toBe(wallet.pubkey);
      const { body } = await requestJson(origin, `/.well-known/lnurlp/${name.toUpperCase()}`);
      expect(body.metadata).toContain(`${name}@${new URL(origin).host}`);
    }
  });

  it('allows web pages to read responses, including errors', async () => {
    const origin = 'https://wallet.example';
    const preflight = await requestThroughProxy(secondOrigin, QUOTES_PATH, {
      method: 'OPTIONS',
      headers: { origin, 'access-control-request-method': 'PATCH' },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get('access-control-allow-methods')).toContain('PATCH');
    const rejected = await requestThroughProxy(secondOrigin, QUOTES_PATH, { headers: { origin } });
    expect(rejected.status).toBe(401);
    expect(rejected.headers.get('access-control-allow-origin')).toBe('*');
    expect(rejected.headers.get('access-control-expose-headers')).toContain('X-Cashu');
  });

  it('supports HTTP/2', async () => {
    const wallet = environment.newWallet().withOrigin(secondOrigin);
    const session = connectHttp2(secondOrigin);
    onTestFinished(() => session.close());
    await once(session, 'connect');
    expect(session.alpnProtocol).toBe('h2');
    const sendRequest = async (path: string, headers: Record<string, string>) => {
      const stream = session.request({ ':path': path, ...headers });
      return JSON.parse(await text(stream));
    };
    const [quoteList, rejection] = await Promise.all([
      sendRequest(QUOTES_PATH, { authorization: wallet.signRequest(QUOTES_PATH) }),
      sendRequest(QUOTES_PATH, { authorization: 'Nostr x', 'x-cashu': LONG_MEMO }),
    ]);
    expect(quoteList).toMatchObject({ error: false, metadata: { total: 0 } });
    expect(rejection).toMatchObject({ error: true });
  });

  it('limits requests by the address of the connection, not by an address in a header', async () => {
    const { npub } = environment.newWallet();
    let requestCount = 0;
    const requestStatus = async (clientAddress: string) => {
      const target = `/.well-known/lnurlp/${npub}?amount=1000`;
      requestCount += 1;
      const forgedAddress = `192.0.2.${requestCount}`;
      const headers = {
        'x-forwarded-for': forgedAddress,
        'x-real-ip': forgedAddress,
        forwarded: `for=${forgedAddress}`,
      };
      return (await requestThroughProxy(canonicalOrigin, target, { clientAddress, headers }))
        .status;
    };
    for (const client of ['127.0.0.2', ...IPV6_CLIENT_ADDRESSES]) {
      for (let sent = 0; sent < MAX_INVOICES_PER_MINUTE; sent += 1) {
        expect(await requestStatus(client)).toBe(200);
      }
      expect(await requestStatus(client)).toBe(429);
    }
    expect(await requestStatus('127.0.0.3')).toBe(200);
  });
});

describe('an idle quote socket', () => {
  it('outlives the idle timeout of a proxy only if the service sends pings', async () => {
    const openSocket = async (
      kind: ReverseProxyKind,
      timeout: string,
      overrides: ServiceOverrides,
    ) => {
      const origin = await startProxy(
        kind,
        timeout,
        timeout.replace('120s', SHORT_IDLE_TIMEOUT),
        overrides,
      );
      const socket = new TestQuoteSocket(origin);
      // A proxy may reset the connection.
      socket.connection.on('error', () => undefined);
      return socket;
    };
    const sockets: [withPings: TestQuoteSocket, withoutPings: TestQuoteSocket][] = [];
    for (const [kind, timeout] of IDLE_SOCKET_TIMEOUTS) {
      const heartbeat = { socketTiming: { heartbeatIntervalMs: HEARTBEAT_INTERVAL_MS } };
      sockets.push([
        await openSocket(kind, timeout, heartbeat),
        await openSocket(kind, timeout, {}),
      ]);
    }
    for (const [withPings, withoutPings] of sockets) {
      expect(await withoutPings.waitForClose()).toBe(1006);
      expect(withPings.connection.readyState).toBe(WebSocket.OPEN);
      await once(withPings.connection, 'ping');
    }
  });
});

describe('a client that exceeds a limit of the proxy', () => {
  it.each([
    ['another quote socket', 'nginx', tryOpenSocket],
    ['another quote socket', 'haproxy', tryOpenSocket],
    ['another connection for an incomplete request', 'haproxy', tryStartRequest],
  ] as const)('cannot open %s to %s, but other clients can', async (_name, kind, tryOpen) => {
    const limit = CONNECTION_LIMITS[kind];
    const origin = await startProxy(kind, limit, limit.replace('250', '3'));
    for (const client of ['127.0.0.4', ...IPV6_CLIENT_ADDRESSES]) {
      for (const isAllowed of [true, true, true, false]) {
        expect(await tryOpen(origin, client)).toBe(isAllowed);
      }
    }
    expect(await tryOpen(origin, '127.0.0.5')).toBe(true);
  });

  it('gets a JSON error from nginx in the formats of payers and wallets', async () => {
    const limit = CONNECTION_LIMITS.nginx;
    const origin = await startProxy('nginx', limit, limit.replace('250', '1'));
    const clientAddress = '127.0.0.4';
    expect(await tryOpenSocket(origin, clientAddress)).toBe(true);
    const rejected = await requestThroughProxy(origin, QUOTES_PATH, { clientAddress });
    expect(rejected.status).toBe(429);
    expect(rejected.headers.get('retry-after')).toBe('10');
    expect(rejected.headers.get('access-control-allow-origin')).toBe('*');
    expect(rejected.headers.get('content-type')).toMatch(/^application\/json/);
    expect(JSON.parse(rejected.text)).toMatchObject({ error: true, status: 'ERROR' });
  });

  it.each(HEADER_TIMEOUTS)(
    'loses its connections to %s when it sends incomplete requests',
    async (kind, timeout) => {
      const origin = await startProxy(kind, timeout, timeout.replace('10s', '500ms'));
      const connections = Array.from({ length: 20 }, () =>
        sendIncompleteRequest(origin, '127.0.0.6'),
      );
      // `text` resolves when the proxy closes the connection.
      for (const response of await Promise.all(connections.map((socket) => text(socket)))) {
        expect(response).toMatch(/^(?:$|HTTP\/1\.[01] 408 )/);
      }
    },
  );
});

async function startProxy(
  kind: ReverseProxyKind,
  text: string,
  replacement: string,
  overrides: ServiceOverrides = {},
): Promise<string> {
  const { canonicalOrigin, close } = await startServiceBehindProxy(environment, kind, {
    overrides,
    proxyConfigReplacements: [[text, replacement]],
  });
  onTestFinished(close);
  return canonicalOrigin;
}

function tryOpenSocket(origin: string, clientAddress: string): Promise<boolean> {
  const socket = new WebSocket(`${origin.replace('https:', 'wss:')}${SOCKET_PATH}`, {
    createConnection: () => connectToProxy(origin, clientAddress),
  });
  onTestFinished(() => socket.terminate());
  return once(socket, 'open').then(
    () => true,
    () => false,
  );
}

function tryStartRequest(origin: string, clientAddress: string): Promise<boolean> {
  return once(sendIncompleteRequest(origin, clientAddress), 'secureConnect').then(
    () => true,
    () => false,
  );
}

function sendIncompleteRequest(origin: string, clientAddress: string): TLSSocket {
  const connection = connectToProxy(origin, clientAddress);
  onTestFinished(() => void connection.destroy());
  connection.write(`GET ${QUOTES_PATH} HTTP/1.1\r\nHost: ${new URL(origin).host}\r\n`);
  return connection;
}

async function requestInvoice(
  origin: string,
  { npub }: RecipientClient,
): Promise<{ pr: string; verify: string }> {
  return (await requestJson(origin, `/.well-known/lnurlp/${npub}?amount=21000`)).body;
}
