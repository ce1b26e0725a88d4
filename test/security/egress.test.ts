import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { WebSocketServer } from 'ws';
import { createDnsResolver } from '../../src/net/dns-resolver.ts';
import { GuardedFetch } from '../../src/net/guarded-fetch.ts';
import {
  type CloseDetails,
  createGuardedWebSocketConnector,
  type GuardedSocket,
} from '../../src/net/guarded-websocket.ts';
import { HttpClient, type HttpResponse } from '../../src/net/http-client.ts';
import { FETCH_LIMITS } from '../../src/net/limits.ts';
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

const CONNECT_TIMEOUT_MS = 200;

const runFile = promisify(execFile);

let loopbackCounter: LoopbackConnectionCounter;
let dnsServer: FakeDnsServer;
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
    expect((await waitForClose(unencrypted)).reason).toBe('https required');
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
    expect(attempts.targets).toEqual([target, target, target, target]);
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
    const first = await guarded.request({ url });
    const later = [
      fetchFailureReason(await guarded.request({ url })),
      (await waitForClose(connect(`wss://${host}/`))).reason,
      fetchFailureReason(await guarded.request({ url, body: {} })),
    ];
    expect(first).toMatchObject({ outcome: 'unreachable', isUnsent: true });
    expect(later).toEqual(['forbidden address', 'forbidden address', 'forbidden address']);
    expect(attempts.targets).toEqual([`[${UNUSED_PUBLIC_ADDRESS}]:${loopbackCounter.port}`]);
    expect(loopbackCounter.connectionCount()).toBe(0);
  });

  it('is contacted only at its public addresses if it also has private ones', async () => {
    answerDnsQuery = (name, type) => [
      ...loopbackRecords(name, type),
      ...publicRecords(name, type),
      ...(type === 'A' ? addressRecords('A', ['10.0.0.1', '169.254.169.254']) : []),
    ];
    const attempts = startRecording();
    await failureReasons(`mixed.example:${loopbackCounter.port}`);
    const target = `[${UNUSED_PUBLIC_ADDRESS}]:${loopbackCounter.port}`;
    expect(attempts.targets).toEqual([target, target, target, target]);
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
      const url = `https://${name}.example:${loopbackCounter.port}/`;
      await guarded.request({ url });
      completed.push(name);
    };
    const delayed = Array.from({ length: 100 }, (_, index) => sendRequest(`silent-${index}`));
    await sendRequest('responsive');
    expect(completed).toEqual(['responsive']);
    await Promise.all(delayed);
  });
});

// Control: shows that the counter and the recorder notice connections.
it('reaches a private host if private networks are allowed', async () => {
  const { port, connectionCount, close } = await startLoopbackConnectionCounter();
  const limits = { ...FETCH_LIMITS, totalTimeoutMs: CONNECT_TIMEOUT_MS };
  const unrestrictedFetch = new GuardedFetch({ allowPrivateNetworks: true, limits });
  cleanups.push(close, () => unrestrictedFetch.close());
  const attempts = startRecording();
  await unrestrictedFetch.request({ url: `http://[::1]:${port}/` });
  await unrestrictedFetch.request({ url: `http://127.1:${port}/` });
  expect(attempts.targets).toEqual([`[::1]:${port}`, `127.0.0.1:${port}`]);
  expect(connectionCount()).toBe(2);
});

it.each([301, 302, 303, 307, 308])('does not follow a redirect with status %i', async (status) => {
  const location = `http://127.0.0.1:${loopbackCounter.port}/`;
  const server = createServer((_request, response) => {
    response.writeHead(status, { location }).end();
  });
  server.on('upgrade', (_request, socket) => {
    socket.end(
      `HTTP/1.1 ${status} Elsewhere\r\nLocation: ${location}\r\nContent-Length: 0\r\n\r\n`,
    );
  });
  const host = await listen(server);
  const guarded = new GuardedFetch({ allowPrivateNetworks: true });
  cleanups.push(() => guarded.close());
  const connect = createGuardedWebSocketConnector({ allowPrivateNetworks: true });
  const attempts = startRecording();
  const response = await guarded.request({ url: `http://${host}/`, body: {} });
  expect(response).toMatchObject({ outcome: 'responded', status });
  const closed = await waitForClose(connect(`ws://${host}/`));
  expect(closed).toEqual({ reason: 'handshake rejected', status });
  expect(attempts.targets).toEqual([host, host]);
});

it('does not use a proxy in the environment variables, although Node’s own clients do', async () => {
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
  const direct = { response: { outcome: 'responded', text: 'direct' }, socket: 'open' };
  expect(outcomes).toMatchObject({ mainThread: direct, networkThread: direct });
  // Control: Node's own clients use the proxy.
  expect(proxiedUrls.map((url) => url.replace(targetUrl, ''))).toEqual([
    '/global-fetch',
    '/http-get',
  ]);
});

it('ignores NODE_TLS_REJECT_UNAUTHORIZED=0, although Node’s own clients apply it', async () => {
  const target = createTlsServer(
    { key: TEST_PRIVATE_KEY, cert: TEST_CERTIFICATE },
    (_request, response) => response.end('unchecked'),
  );
  const url = `https://${await listen(target)}`;
  const rejected = {
    response: { outcome: 'unreachable', reason: 'bad certificate', isUnsent: true },
    socket: 'bad certificate',
  };
  expect(await connectInProcess({ NODE_TLS_REJECT_UNAUTHORIZED: '0' }, url)).toEqual({
    mainThread: rejected,
    networkThread: rejected,
    globalFetch: 'unchecked',
    httpGet: 'status 200',
  });
});

async function connectInProcess(env: Record<string, string>, targetUrl: string): Promise<unknown> {
  const program = fileURLToPath(
    new URL('../helpers/network/outgoing-connections-probe.ts', import.meta.url),
  );
  const { stdout } = await runFile(process.execPath, [program, targetUrl], { env });
  return JSON.parse(stdout);
}

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

function createGuardedFetch(isMetered = false): GuardedFetch {
  const limits = { ...FETCH_LIMITS, connectTimeoutMs: CONNECT_TIMEOUT_MS };
  const guarded = new GuardedFetch({
    ...createPolicy(),
    limits,
    ...(isMetered && { otherClient: new HttpClient(createPolicy(), limits, () => undefined) }),
  });
  cleanups.push(() => guarded.close());
  return guarded;
}

function createGuardedConnector() {
  return createGuardedWebSocketConnector({
    ...createPolicy(),
    handshakeTimeoutMs: CONNECT_TIMEOUT_MS,
  });
}

function createPolicy() {
  return { allowPrivateNetworks: false, resolve: createDnsResolver([dnsServer.address]) };
}

/**
 * Connects to a host and port by HTTPS and by WebSocket, as to an operator's host and as the network thread does.
 * @returns why each connection failed
 */
async function failureReasons(authority: string): Promise<string[]> {
  const reasons: string[] = [];
  for (const isMetered of [false, true]) {
    const client = createGuardedFetch(isMetered);
    const response = await client.request({ url: `https://${authority}/` });
    reasons.push(fetchFailureReason(response));
  }
  const connect = createGuardedConnector();
  for (const receive of [undefined, () => true]) {
    reasons.push((await waitForClose(connect(`wss://${authority}/`, receive))).reason);
  }
  return reasons;
}

function fetchFailureReason(response: HttpResponse): string {
  return response.outcome === 'unreachable' ? response.reason : `status ${response.status}`;
}

async function waitForClose(socket: GuardedSocket): Promise<CloseDetails> {
  const [closeReason] = await once(socket, 'close');
  return closeReason;
}

async function listen(server: Server | TlsServer): Promise<string> {
  const { port, close } = await listenOnLoopback(server);
  cleanups.push(close);
  return `127.0.0.1:${port}`;
}
