import { execFile } from 'node:child_process';
import { createServer, type Server } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { createDnsResolver } from '../../src/net/dns-resolver.ts';
import { GuardedFetch, type GuardedResponse } from '../../src/net/guarded-fetch.ts';
import { createGuardedWebSocketConnector } from '../../src/net/guarded-websocket.ts';
import {
  type ConnectionAttempts,
  type LoopbackConnectionCounter,
  recordConnectionAttempts,
  startLoopbackConnectionCounter,
} from '../helpers/network/connection-detectors.ts';
import {
  type DnsAnswer,
  type DnsRecord,
  type FakeDnsServer,
  startFakeDnsServer,
} from '../helpers/network/fake-dns-server.ts';
import { listenOnLoopback } from '../helpers/network/loopback-server.ts';
import { TEST_CERTIFICATE, TEST_PRIVATE_KEY } from '../helpers/network/test-certificate.ts';

/** In an unassigned block, so that no host responds. */
const UNUSED_PUBLIC_ADDRESS = '3000::1';

/** Ends attempts to connect to {@link UNUSED_PUBLIC_ADDRESS}. */
const CONNECT_TIMEOUT_MS = 200;

const runFile = promisify(execFile);

let loopbackCounter: LoopbackConnectionCounter;
let dnsServer: FakeDnsServer;
/** How the DNS server answers. Each test sets it. */
let answerDnsQuery: (name: string, type: 'A' | 'AAAA') => DnsAnswer;
const cleanups: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  loopbackCounter = await startLoopbackConnectionCounter();
  dnsServer = await startFakeDnsServer((name, type) => answerDnsQuery(name, type));
});
afterAll(async () => {
  await dnsServer.close();
  await loopbackCounter.close();
});
afterEach(async () => {
  await Promise.all(cleanups.splice(0).map((cleanup) => cleanup()));
});

describe('a mint or relay URL from an untrusted client', () => {
  // Each host is an address of this machine, or resolves to one.
  it.each([
    '127.0.0.1',
    '127.1',
    '2130706433',
    '0x7f000001',
    '0177.0.0.1',
    '127.0.0.1.',
    '１２７.０.０.１',
    '%31%32%37.0.0.1',
    '0.0.0.0',
    '0',
    '[::1]',
    '[::]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::ffff:0:127.0.0.1]',
    '[64:ff9b::7f00:1]',
    '[64:ff9b:1::7f00:1]',
    '[2002:7f00:1::]',
    '[2001:0:7f00:1::]',
    'localhost',
    'localhost.',
    'local\u00adhost',
    'anything.mint.localhost.',
    'public.example@127.0.0.1',
    'mint.example',
    'mint.example.',
    'mіnt.example',
  ])('is rejected with the host %s', async (host) => {
    answerDnsQuery = loopbackRecords;
    const attempts = startRecording();
    for (const reason of await failureReasons(`${host}:${loopbackCounter.port}`)) {
      expect(reason).toBe('forbidden address');
    }
    const unencrypted = createGuardedConnector()(`ws://${host}:${loopbackCounter.port}/`);
    expect(await webSocketFailureReason(unencrypted)).toBe('forbidden address');
    expect(attempts.targets).toEqual([]);
    expect(loopbackCounter.connectionCount()).toBe(0);
  });

  it.each([0, 1, 22, 25, 80, 442, 444, 1023])('is rejected with port %i', async (port) => {
    answerDnsQuery = publicRecords;
    const attempts = startRecording();
    const [fetchReason] = await failureReasons(`public.example:${port}`);
    expect(fetchReason).toBe('forbidden port');
    expect(attempts.targets).toEqual([]);
  });

  it.each([443, 1024, 3338, 65_535])('is accepted with port %i', async (port) => {
    answerDnsQuery = publicRecords;
    const attempts = startRecording();
    await failureReasons(`public.example:${port}`);
    const target = `[${UNUSED_PUBLIC_ADDRESS}]:${port}`;
    expect(attempts.targets).toEqual([target, target]);
  });
});

describe('a host name that an attacker controls', () => {
  it('is resolved and checked again for each connection (DNS rebinding)', async () => {
    // The first lookup returns a public address. Later lookups return addresses of this machine.
    const lookups = new Set<string>();
    answerDnsQuery = (name, type) => {
      const isFirstLookup = !lookups.has(`${type} ${name}`);
      lookups.add(`${type} ${name}`);
      return isFirstLookup ? publicRecords(name, type) : loopbackRecords(name, type);
    };
    const guarded = createGuardedFetch();
    const connect = createGuardedConnector();
    const host = `rebinding.example:${loopbackCounter.port}`;
    const attempts = startRecording();
    const url = `https://${host}/`;
    const first = await guarded.request({ method: 'GET', url });
    const later = [
      fetchFailureReason(await guarded.request({ method: 'GET', url })),
      await webSocketFailureReason(connect(`wss://${host}/`)),
      fetchFailureReason(await guarded.request({ method: 'POST', url, body: {} })),
    ];
    expect(first).toMatchObject({ outcome: 'unreachable', isUnsent: true });
    expect(later).toEqual(['forbidden address', 'forbidden address', 'forbidden address']);
    expect(attempts.targets).toEqual([`[${UNUSED_PUBLIC_ADDRESS}]:${loopbackCounter.port}`]);
    expect(loopbackCounter.connectionCount()).toBe(0);
  });

  it('is contacted only at its public addresses if it also has private ones', async () => {
    answerDnsQuery = (_name, type) =>
      type === 'A'
        ? addressRecords('A', ['127.0.0.1', '10.0.0.1', '169.254.169.254', '192.168.0.1'])
        : addressRecords('AAAA', [
            '::1',
            '::ffff:127.0.0.1',
            UNUSED_PUBLIC_ADDRESS,
            'fd00:ec2::254',
          ]);
    const attempts = startRecording();
    await failureReasons(`mixed.example:${loopbackCounter.port}`);
    const target = `[${UNUSED_PUBLIC_ADDRESS}]:${loopbackCounter.port}`;
    expect(attempts.targets).toEqual([target, target]);
    expect(loopbackCounter.connectionCount()).toBe(0);
  });

  it('is rejected if it is an alias of a host name with private addresses', async () => {
    answerDnsQuery = (name, type) => [
      { type: 'CNAME', target: 'between.example' },
      { type: 'CNAME', name: 'between.example', target: 'inside.example' },
      ...loopbackRecords(name, type).map((record) => ({ ...record, name: 'inside.example' })),
    ];
    const attempts = startRecording();
    for (const reason of await failureReasons(`alias.example:${loopbackCounter.port}`)) {
      expect(reason).toBe('forbidden address');
    }
    expect(attempts.targets).toEqual([]);
    expect(loopbackCounter.connectionCount()).toBe(0);
  });

  it('does not delay requests to other hosts if its name server never responds', async () => {
    answerDnsQuery = (name, type) =>
      name.startsWith('silent') ? 'silence' : loopbackRecords(name, type);
    const guarded = createGuardedFetch();
    const completed: string[] = [];
    const sendRequest = async (name: string) => {
      await guarded.request({
        method: 'GET',
        url: `https://${name}.example:${loopbackCounter.port}/`,
      });
      completed.push(name);
    };
    const delayed = Array.from({ length: 100 }, (_, index) => sendRequest(`silent-${index}`));
    await sendRequest('responsive');
    expect(completed).toEqual(['responsive']);
    await Promise.all(delayed);
  });
});

describe('a private host', () => {
  // Control: shows that the counter and the recorder notice connections.
  it('is reached if private networks are allowed', async () => {
    const ownCounter = await startLoopbackConnectionCounter();
    const unrestrictedFetch = new GuardedFetch({
      allowPrivateNetworks: true,
      limits: { totalTimeoutMs: CONNECT_TIMEOUT_MS },
    });
    const attempts = startRecording();
    await unrestrictedFetch.request({ method: 'GET', url: `http://[::1]:${ownCounter.port}/` });
    await unrestrictedFetch.request({ method: 'GET', url: `http://127.1:${ownCounter.port}/` });
    expect(attempts.targets).toEqual([`[::1]:${ownCounter.port}`, `127.0.0.1:${ownCounter.port}`]);
    expect(ownCounter.connectionCount()).toBe(2);
    await unrestrictedFetch.close();
    await ownCounter.close();
  });
});

describe('a redirect to a private address', () => {
  it.each([301, 302, 303, 307, 308])('is not followed if its status is %i', async (status) => {
    const server = createServer((_request, response) => {
      response
        .writeHead(status, { location: `http://127.0.0.1:${loopbackCounter.port}/private` })
        .end();
    });
    server.on('upgrade', (_request, socket) => {
      socket.end(
        `HTTP/1.1 ${status} Elsewhere\r\nLocation: ws://127.0.0.1:${loopbackCounter.port}/\r\nContent-Length: 0\r\n\r\n`,
      );
    });
    const host = await listen(server);
    const guarded = new GuardedFetch({ allowPrivateNetworks: true });
    cleanups.push(() => guarded.close());
    const connect = createGuardedWebSocketConnector({ allowPrivateNetworks: true });
    const attempts = startRecording();
    const response = await guarded.request({ method: 'POST', url: `http://${host}/`, body: {} });
    expect(response).toMatchObject({ outcome: 'responded', status });
    expect(await webSocketFailureReason(connect(`ws://${host}/`))).toContain(String(status));
    expect(attempts.targets).toEqual([host, host]);
    expect(loopbackCounter.connectionCount()).toBe(0);
  });
});

describe('a proxy in the environment variables', () => {
  it('is not used, although Node’s own clients use it', async () => {
    const proxiedUrls: string[] = [];
    const proxy = createServer((request, response) => {
      proxiedUrls.push(request.url ?? '');
      response.end('by proxy');
    }).on('connect', (request, socket) => {
      proxiedUrls.push(request.url ?? '');
      socket.end();
    });
    const target = createServer((_request, response) => response.end('direct'));
    const sockets = new WebSocketServer({ server: target });
    cleanups.push(async () => sockets.close());
    const proxyUrl = `http://${await listen(proxy)}`;
    const targetUrl = `http://${await listen(target)}`;
    const environment = Object.fromEntries(
      ['http_proxy', 'https_proxy', 'all_proxy', 'ws_proxy', 'wss_proxy'].flatMap((name) => [
        [name, proxyUrl],
        [name.toUpperCase(), proxyUrl],
      ]),
    );
    const outcomes = await connectInProcess(
      { ...environment, NODE_USE_ENV_PROXY: '1', NO_PROXY: '', no_proxy: '' },
      targetUrl,
    );
    expect(outcomes).toMatchObject({
      guardedFetch: { outcome: 'responded', text: 'direct' },
      guardedSocket: 'open',
    });
    // Control: Node's own clients use the proxy.
    expect(proxiedUrls.map((url) => url.replace(targetUrl, ''))).toEqual([
      '/global-fetch',
      '/http-get',
    ]);
  });
});

describe('NODE_TLS_REJECT_UNAUTHORIZED=0', () => {
  it('is ignored, although Node’s own clients apply it', async () => {
    const target = createTlsServer(
      { key: TEST_PRIVATE_KEY, cert: TEST_CERTIFICATE },
      (_request, response) => response.end('unchecked'),
    );
    const url = `https://${await listen(target)}`;
    expect(await connectInProcess({ NODE_TLS_REJECT_UNAUTHORIZED: '0' }, url)).toEqual({
      guardedFetch: { outcome: 'unreachable', reason: 'bad certificate', isUnsent: true },
      guardedSocket: expect.stringMatching(/self-signed certificate/),
      globalFetch: 'unchecked',
      httpGet: 'status 200',
    });
  });
});

/** Connects with each client in a process with these environment variables. @returns the result of each client */
async function connectInProcess(env: Record<string, string>, targetUrl: string): Promise<unknown> {
  const program = fileURLToPath(
    new URL('../helpers/network/outgoing-connections-probe.ts', import.meta.url),
  );
  const { stdout } = await runFile(process.execPath, [program, targetUrl], { env });
  return JSON.parse(stdout);
}

/** DNS records that point to this machine. */
function loopbackRecords(_name: string, type: 'A' | 'AAAA'): DnsRecord[] {
  return type === 'A'
    ? addressRecords('A', ['127.0.0.1', '0.0.0.0', '127.255.255.254'])
    : addressRecords('AAAA', ['::1', '::ffff:127.0.0.1', '::ffff:0:127.0.0.1', '64:ff9b::7f00:1']);
}

function publicRecords(_name: string, type: 'A' | 'AAAA'): DnsRecord[] {
  return type === 'A' ? [] : addressRecords('AAAA', [UNUSED_PUBLIC_ADDRESS]);
}

function addressRecords(type: 'A' | 'AAAA', addresses: string[]): DnsRecord[] {
  return addresses.map((address) => ({ type, address }));
}

function startRecording(): ConnectionAttempts {
  const attempts = recordConnectionAttempts();
  cleanups.push(async () => attempts.stop());
  return attempts;
}

/** Creates a client with the restrictions of production, and the DNS server of these tests. */
function createGuardedFetch(): GuardedFetch {
  const guarded = new GuardedFetch({
    allowPrivateNetworks: false,
    resolve: createDnsResolver([dnsServer.address]),
    limits: { connectTimeoutMs: CONNECT_TIMEOUT_MS },
  });
  cleanups.push(() => guarded.close());
  return guarded;
}

function createGuardedConnector() {
  return createGuardedWebSocketConnector({
    allowPrivateNetworks: false,
    resolve: createDnsResolver([dnsServer.address]),
    handshakeTimeoutMs: CONNECT_TIMEOUT_MS,
  });
}

/** Connects to a host and port by HTTPS and by WebSocket. @returns why each connection failed */
async function failureReasons(authority: string): Promise<string[]> {
  const response = await createGuardedFetch().request({
    method: 'GET',
    url: `https://${authority}/`,
  });
  return [
    fetchFailureReason(response),
    await webSocketFailureReason(createGuardedConnector()(`wss://${authority}/`)),
  ];
}

function fetchFailureReason(response: GuardedResponse): string {
  return response.outcome === 'unreachable' ? response.reason : `status ${response.status}`;
}

async function webSocketFailureReason(socket: WebSocket): Promise<string> {
  let reason = '';
  socket.on('error', (error) => {
    reason = error.message;
  });
  await new Promise((resolve) => socket.once('close', resolve));
  return reason;
}

/** @returns host and port */
async function listen(server: Server | TlsServer): Promise<string> {
  const { port, close } = await listenOnLoopback(server);
  cleanups.push(close);
  return `127.0.0.1:${port}`;
}
