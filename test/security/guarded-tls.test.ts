import { execFile, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { RequestListener, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { WebSocketServer } from 'ws';
import { GuardedFetch } from '../../src/net/guarded-fetch.ts';
import { createGuardedWebSocketConnector } from '../../src/net/guarded-websocket.ts';
import { HttpClient } from '../../src/net/http-client.ts';
import { FETCH_LIMITS } from '../../src/net/limits.ts';
import { listenOnLoopback } from '../helpers/network/loopback-server.ts';
import { TEST_CERTIFICATE, TEST_PRIVATE_KEY } from '../helpers/network/test-certificate.ts';

/** Resolves every host name to this machine, and treats the address as public. */
vi.mock(import('../../src/net/guarded-connection.ts'), async (importOriginal) => ({
  ...(await importOriginal()),
  createLookupOption: () => ({
    lookup: (_hostname, options, callback) =>
      options.all
        ? callback(null, [{ address: '127.0.0.1', family: 4 }])
        : callback(null, '127.0.0.1', 4),
  }),
}));

const server = createServer(
  { key: TEST_PRIVATE_KEY, cert: TEST_CERTIFICATE },
  (_request, response) => response.end('hello'),
);
const webSocketServer = new WebSocketServer({ server });
const guardedFetch = new GuardedFetch({ allowPrivateNetworks: false });
const connectWebSocket = createGuardedWebSocketConnector({ allowPrivateNetworks: false });
let port: number;

beforeAll(async () => {
  setDefaultCACertificates([...getCACertificates('default'), TEST_CERTIFICATE]);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  port = (server.address() as AddressInfo).port;
});
afterAll(async () => {
  await guardedFetch.close();
  webSocketServer.close();
  server.close();
});

describe('a client for untrusted hosts with the settings of production', () => {
  it('allows an HTTPS request to a public host', async () => {
    const result = await guardedFetch.request({ url: `https://mint.test:${port}/` });
    expect(result).toMatchObject({ outcome: 'responded', status: 200, text: 'hello' });
  });

  it('allows a WebSocket over TLS to a public host', async () => {
    const connection = once(webSocketServer, 'connection');
    const socket = connectWebSocket(`wss://mint.test:${port}/v1/ws`);
    await once(socket, 'open');
    const [, request] = await connection;
    expect([request.url, request.headers.host]).toEqual(['/v1/ws', `mint.test:${port}`]);
    socket.terminate();
    await once(socket, 'close');
  });

  it('requires a certificate for the requested host name', async () => {
    const url = `https://other.test:${port}/`;
    const result = await guardedFetch.request({ url });
    expect(result).toEqual({ outcome: 'unreachable', reason: 'bad certificate', isUnsent: true });
    const [closed] = await once(connectWebSocket(`wss://other.test:${port}/`), 'close');
    expect(closed).toEqual({ reason: 'bad certificate', status: null });
  });

  it.each([
    ['accepts a certificate chain of 9 kB', 24, ['responded', 'open']],
    ['rejects a certificate chain of 36 kB', 100, ['response too large', 'response too large']],
  ])('%s from a host that the operator did not name', async (_case, length, expected) => {
    const chainServer = createServer(
      { key: TEST_PRIVATE_KEY, cert: Array(length).fill(TEST_CERTIFICATE).join('\n') },
      (_request, response) => response.end('hello'),
    );
    new WebSocketServer({ server: chainServer });
    const { port, close } = await listenOnLoopback(chainServer);
    onTestFinished(close);
    expect(await connectToUnnamedHost(port)).toEqual(expected);
  });

  it.each([
    ['accepts 200 session tickets', '200', ['responded', 'handshake rejected']],
    ['rejects 2,000 session tickets', '2000', ['response too large', 'response too large']],
  ])('%s from a host that the operator did not name', async (_case, count, expected) => {
    const port = await startOpenSslServer(`${TEST_PRIVATE_KEY}\n${TEST_CERTIFICATE}`, [
      ...['-tls1_3', '-num_tickets', count],
    ]);
    expect(await connectToUnnamedHost(port)).toEqual(expected);
  });

  // With parameters of 10,000 bits, a handshake would take a second of CPU. The first case shows that the host works.
  it.each([
    ['reaches', 'ECDHE-RSA-AES128-GCM-SHA256', 'bad certificate'],
    ['does not compute', 'DHE-RSA-AES128-GCM-SHA256', 'connection failed'],
  ])('%s the key exchange of a host that chooses %s', async (_case, cipher, reason) => {
    const { stdout: identity } = await promisify(execFile)('openssl', [
      ...['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=a', '-keyout', '-'],
    ]);
    const port = await startOpenSslServer(identity, ['-tls1_2', '-cipher', cipher]);
    expect(await connectToUnnamedHost(port)).toEqual([reason, reason]);
  });

  it('limits the concurrent requests to all ports of a host, except to an operator origin', async () => {
    const arrivals = new EventEmitter();
    const pendingResponses: ServerResponse[] = [];
    const ports = await Promise.all(
      Array.from({ length: FETCH_LIMITS.maxInFlightPerSite + 8 }, () =>
        startHttpsServer((_request, response) => {
          pendingResponses.push(response);
          arrivals.emit('arrival');
        }),
      ),
    );
    const operatorPort = await startHttpsServer((_request, response) => response.end('operator'));
    const fetchWithOperatorOrigin = new GuardedFetch({
      allowPrivateNetworks: false,
      operatorOrigins: [`https://mint.test:${operatorPort}`],
    });
    onTestFinished(() => fetchWithOperatorOrigin.close());
    const sendRequest = (port: number) =>
      fetchWithOperatorOrigin.request({ url: `https://mint.test:${port}/` });
    const results = ports.map(sendRequest);
    while (pendingResponses.length < FETCH_LIMITS.maxInFlightPerSite) {
      await once(arrivals, 'arrival');
    }
    expect(await sendRequest(operatorPort)).toMatchObject({ text: 'operator' });
    expect(pendingResponses).toHaveLength(FETCH_LIMITS.maxInFlightPerSite);
    arrivals.on('arrival', () => pendingResponses.at(-1)?.end('late'));
    for (const response of pendingResponses) {
      response.end('late');
    }
    expect(await Promise.all(results)).toMatchObject(ports.map(() => ({ text: 'late' })));
  });
});

/** Returns the outcomes of a request and of a WebSocket. */
async function connectToUnnamedHost(port: number): Promise<string[]> {
  const host = `mint.test:${port}`;
  const policy = { allowPrivateNetworks: false };
  const client = new HttpClient(policy, FETCH_LIMITS, () => undefined);
  onTestFinished(() => client.close());
  const response = await client.request({
    url: `https://${host}/`,
    body: null,
    maxBodyBytes: FETCH_LIMITS.maxBodyBytes,
    timeoutMs: FETCH_LIMITS.totalTimeoutMs,
  });
  const socket = createGuardedWebSocketConnector(policy)(`wss://${host}/`, () => true);
  const closed = once(socket, 'close');
  const [closeReason] = await Promise.race([once(socket, 'open'), closed]);
  socket.terminate();
  await closed;
  return [
    response.outcome === 'unreachable' ? response.reason : response.outcome,
    closeReason?.reason ?? 'open',
  ];
}

/** Node's servers cannot choose these options. */
async function startOpenSslServer(identityPem: string, options: string[]): Promise<number> {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-tls-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file = path.join(folder, 'identity.pem');
  await writeFile(file, identityPem);
  const args = ['s_server', '-www', '-accept', '127.0.0.1:0', '-cert', file, '-key', file];
  const child = spawn('openssl', [...args, ...options]);
  onTestFinished(() => void child.kill());
  for await (const line of createInterface(child.stdout)) {
    const [, port] = /^ACCEPT .*:(\d+)$/.exec(line) ?? [];
    if (port !== undefined) {
      return Number(port);
    }
  }
  throw new Error('openssl s_server ended');
}

async function startHttpsServer(listener: RequestListener): Promise<number> {
  const tlsOptions = { key: TEST_PRIVATE_KEY, cert: TEST_CERTIFICATE };
  const { port, close } = await listenOnLoopback(createServer(tlsOptions, listener));
  onTestFinished(close);
  return port;
}
