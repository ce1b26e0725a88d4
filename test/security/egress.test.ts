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
  type DnsAnswer,
  type DnsRecord,
  type DnsServer,
  startDnsServer,
} from '../helpers/dns-server.ts';
import { listenOnLoopback } from '../helpers/loopback-server.ts';
import {
  type ConnectionAttempts,
  type LoopbackTrap,
  openLoopbackTrap,
  recordConnectionAttempts,
} from '../helpers/loopback-trap.ts';
import { TEST_CERTIFICATE, TEST_PRIVATE_KEY } from '../helpers/test-certificate.ts';

/** A public address of an unassigned block: no connection succeeds. */
const NOBODY_PUBLIC = '3000::1';

/** Ends connections that the guard allowed. */
const CONNECT_TIMEOUT_MS = 200;

const runFile = promisify(execFile);

let trap: LoopbackTrap;
let dns: DnsServer;
let attempts: ConnectionAttempts;
/** The records of the name server. */
let zone: (name: string, type: 'A' | 'AAAA') => DnsAnswer;
const cleanups: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  trap = await openLoopbackTrap();
  dns = await startDnsServer((name, type) => zone(name, type));
});
afterAll(async () => {
  await dns.close();
  await trap.close();
});
afterEach(async () => {
  await Promise.all(cleanups.splice(0).map((cleanup) => cleanup()));
});

/** Untrusted clients choose mints and relays. Their URLs must not reach this machine or its network. */

describe('a host that an untrusted client names', () => {
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
  ])('does not reach this machine as %s', async (host) => {
    zone = everyWayHere;
    const before = startRecording();
    for (const answer of await everyWay(`${host}:${trap.port}`)) {
      expect(answer).toBe('forbidden address');
    }
    const unencrypted = guardedSocket()(`ws://${host}:${trap.port}/`);
    expect(await refusalOf(unencrypted)).toBe('forbidden address');
    expect(before.targets).toEqual([]);
    expect(trap.connectionCount()).toBe(0);
  });

  it.each([
    ['1', 'forbidden port'],
    ['22', 'forbidden port'],
    ['25', 'forbidden port'],
    ['80', 'forbidden port'],
    ['442', 'forbidden port'],
    ['444', 'forbidden port'],
    ['1023', 'forbidden port'],
    ['0', 'forbidden port'],
    ['443', 'allowed'],
    ['1024', 'allowed'],
    ['3338', 'allowed'],
    ['65535', 'allowed'],
  ])('is tried on port %s? %s', async (port, expected) => {
    zone = always([{ type: 'AAAA', address: NOBODY_PUBLIC }]);
    const recorded = startRecording();
    const [answer] = await everyWay(`public.example:${port}`);
    if (expected === 'allowed') {
      const target = `[${NOBODY_PUBLIC}]:${port}`;
      expect(recorded.targets).toEqual([target, target]);
    } else {
      expect([answer, recorded.targets]).toEqual([expected, []]);
    }
  });
});

describe('a host name that an attacker controls', () => {
  it('is checked at each connection, which uses the checked address (DNS rebinding)', async () => {
    // Public at the first lookup, this machine afterwards.
    const asked = new Set<string>();
    zone = (name, type) => {
      const isFirst = !asked.has(`${type} ${name}`);
      asked.add(`${type} ${name}`);
      return isFirst ? publicOnly(name, type) : everyWayHere(name, type);
    };
    const guarded = guardedFetch();
    const connect = guardedSocket();
    const host = `rebinding.example:${trap.port}`;
    const recorded = startRecording();
    const url = `https://${host}/`;
    const first = await guarded.request({ method: 'GET', url });
    const later = [
      reasonOf(await guarded.request({ method: 'GET', url })),
      await refusalOf(connect(`wss://${host}/`)),
      reasonOf(await guarded.request({ method: 'POST', url, body: {} })),
    ];
    expect(first).toMatchObject({ outcome: 'unreachable', isUnsent: true });
    expect(later).toEqual(['forbidden address', 'forbidden address', 'forbidden address']);
    expect(recorded.targets).toEqual([`[${NOBODY_PUBLIC}]:${trap.port}`]);
    expect(trap.connectionCount()).toBe(0);
  });

  it('with private and public addresses is reached at the public ones only', async () => {
    zone = (_name, type) =>
      type === 'A'
        ? addresses('A', ['127.0.0.1', '10.0.0.1', '169.254.169.254', '192.168.0.1'])
        : addresses('AAAA', ['::1', '::ffff:127.0.0.1', NOBODY_PUBLIC, 'fd00:ec2::254']);
    const recorded = startRecording();
    await everyWay(`mixed.example:${trap.port}`);
    const target = `[${NOBODY_PUBLIC}]:${trap.port}`;
    expect(recorded.targets).toEqual([target, target]);
    expect(trap.connectionCount()).toBe(0);
  });

  it('is rejected if it is an alias of a private name', async () => {
    zone = (name, type) => [
      { type: 'CNAME', target: 'between.example' },
      { type: 'CNAME', name: 'between.example', target: 'inside.example' },
      ...everyWayHere(name, type).map((record) => ({ ...record, name: 'inside.example' })),
    ];
    const recorded = startRecording();
    for (const answer of await everyWay(`alias.example:${trap.port}`)) {
      expect(answer).toBe('forbidden address');
    }
    expect(recorded.targets).toEqual([]);
    expect(trap.connectionCount()).toBe(0);
  });

  it('does not delay other names if its name server never responds', async () => {
    zone = (name, type) => (name.startsWith('silent') ? 'silence' : everyWayHere(name, type));
    const guarded = guardedFetch();
    const ended: string[] = [];
    const ask = async (name: string) => {
      await guarded.request({ method: 'GET', url: `https://${name}.example:${trap.port}/` });
      ended.push(name);
    };
    const silent = Array.from({ length: 100 }, (_, index) => ask(`silent-${index}`));
    await ask('talking');
    expect(ended).toEqual(['talking']);
    await Promise.all(silent);
  });
});

describe('a private host', () => {
  it('is reached if private networks are allowed (which shows that the listeners of these tests work)', async () => {
    const ownTrap = await openLoopbackTrap();
    const open = new GuardedFetch({
      allowPrivateNetworks: true,
      limits: { totalTimeoutMs: CONNECT_TIMEOUT_MS },
    });
    const recorded = startRecording();
    await open.request({ method: 'GET', url: `http://[::1]:${ownTrap.port}/` });
    await open.request({ method: 'GET', url: `http://127.1:${ownTrap.port}/` });
    expect(recorded.targets).toEqual([`[::1]:${ownTrap.port}`, `127.0.0.1:${ownTrap.port}`]);
    expect(ownTrap.connectionCount()).toBe(2);
    await open.close();
    await ownTrap.close();
  });
});

describe('a redirect to a private address', () => {
  it.each([301, 302, 303, 307, 308])('with status %i is not followed', async (status) => {
    const server = createServer((_request, response) => {
      response.writeHead(status, { location: `http://127.0.0.1:${trap.port}/inside` }).end();
    });
    server.on('upgrade', (_request, socket) => {
      socket.end(
        `HTTP/1.1 ${status} Elsewhere\r\nLocation: ws://127.0.0.1:${trap.port}/\r\nContent-Length: 0\r\n\r\n`,
      );
    });
    const host = await listen(server);
    const guarded = new GuardedFetch({ allowPrivateNetworks: true });
    cleanups.push(() => guarded.close());
    const connect = createGuardedWebSocketConnector({ allowPrivateNetworks: true });
    const recorded = startRecording();
    const answer = await guarded.request({ method: 'POST', url: `http://${host}/`, body: {} });
    expect(answer).toMatchObject({ outcome: 'responded', status });
    expect(await refusalOf(connect(`ws://${host}/`))).toContain(String(status));
    expect(recorded.targets).toEqual([host, host]);
    expect(trap.connectionCount()).toBe(0);
  });
});

describe('a proxy in the environment', () => {
  it('is not used, although Node would use it', async () => {
    const proxied: string[] = [];
    const proxy = createServer((request, response) => {
      proxied.push(request.url ?? '');
      response.end('by proxy');
    }).on('connect', (request, socket) => {
      proxied.push(request.url ?? '');
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
    const outcomes = await connectWith(
      { ...environment, NODE_USE_ENV_PROXY: '1', NO_PROXY: '', no_proxy: '' },
      targetUrl,
    );
    expect(outcomes).toMatchObject({
      guardedFetch: { outcome: 'responded', text: 'direct' },
      guardedSocket: 'open',
    });
    // Control: Node's own clients use the proxy.
    expect(proxied.map((url) => url.replace(targetUrl, ''))).toEqual([
      '/global-fetch',
      '/http-get',
    ]);
  });
});

describe('NODE_TLS_REJECT_UNAUTHORIZED=0', () => {
  it('is ignored, although Node would apply it', async () => {
    const target = createTlsServer(
      { key: TEST_PRIVATE_KEY, cert: TEST_CERTIFICATE },
      (_request, response) => response.end('unchecked'),
    );
    const url = `https://${await listen(target)}`;
    expect(await connectWith({ NODE_TLS_REJECT_UNAUTHORIZED: '0' }, url)).toEqual({
      guardedFetch: { outcome: 'unreachable', reason: 'bad certificate', isUnsent: true },
      guardedSocket: expect.stringMatching(/self-signed certificate/),
      globalFetch: 'unchecked',
      httpGet: 'status 200',
    });
  });
});

/** The outcome of each kind of connection in a process with this environment. */
async function connectWith(env: Record<string, string>, targetUrl: string): Promise<unknown> {
  const program = fileURLToPath(new URL('../helpers/connection-probe-process.ts', import.meta.url));
  const { stdout } = await runFile(process.execPath, [program, targetUrl], { env });
  return JSON.parse(stdout);
}

/** DNS records that point to this machine. */
function everyWayHere(_name: string, type: 'A' | 'AAAA'): DnsRecord[] {
  return type === 'A'
    ? addresses('A', ['127.0.0.1', '0.0.0.0', '127.255.255.254'])
    : addresses('AAAA', ['::1', '::ffff:127.0.0.1', '::ffff:0:127.0.0.1', '64:ff9b::7f00:1']);
}

function publicOnly(_name: string, type: 'A' | 'AAAA'): DnsRecord[] {
  return type === 'A' ? [] : addresses('AAAA', [NOBODY_PUBLIC]);
}

function always(records: DnsRecord[]) {
  return (_name: string, type: 'A' | 'AAAA') => records.filter((record) => record.type === type);
}

function addresses(type: 'A' | 'AAAA', texts: string[]): DnsRecord[] {
  return texts.map((address) => ({ type, address }));
}

function startRecording(): ConnectionAttempts {
  attempts = recordConnectionAttempts();
  cleanups.push(async () => attempts.stop());
  return attempts;
}

/** The production guard with the test's name server. */
function guardedFetch(limits: { connectTimeoutMs?: number } = {}): GuardedFetch {
  const guarded = new GuardedFetch({
    allowPrivateNetworks: false,
    resolve: createDnsResolver([dns.address]),
    limits: { connectTimeoutMs: CONNECT_TIMEOUT_MS, ...limits },
  });
  cleanups.push(() => guarded.close());
  return guarded;
}

function guardedSocket() {
  return createGuardedWebSocketConnector({
    allowPrivateNetworks: false,
    resolve: createDnsResolver([dns.address]),
    handshakeTimeoutMs: CONNECT_TIMEOUT_MS,
  });
}

/** Returns why connections to a host and port fail: the HTTP client of mints, and the WebSocket client of relays. */
async function everyWay(authority: string): Promise<string[]> {
  const answer = await guardedFetch().request({ method: 'GET', url: `https://${authority}/` });
  return [reasonOf(answer), await refusalOf(guardedSocket()(`wss://${authority}/`))];
}

function reasonOf(answer: GuardedResponse): string {
  return answer.outcome === 'unreachable' ? answer.reason : `status ${answer.status}`;
}

/** Returns the error of a socket. */
async function refusalOf(socket: WebSocket): Promise<string> {
  let refusal = '';
  socket.on('error', (error) => {
    refusal = error.message;
  });
  await new Promise((resolve) => socket.once('close', resolve));
  return refusal;
}

/** @returns host and port */
async function listen(server: Server | TlsServer): Promise<string> {
  const { port, close } = await listenOnLoopback(server);
  cleanups.push(close);
  return `127.0.0.1:${port}`;
}
