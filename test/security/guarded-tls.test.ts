import { EventEmitter, once } from 'node:events';
import type { RequestListener, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
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
    const host = `mint.test:${port}`;
    const policy = { allowPrivateNetworks: false };
    const client = new HttpClient(policy, FETCH_LIMITS, () => undefined);
    onTestFinished(() => client.close());
    const response = await client.request({
      url: `https://${host}/`,
      jsonBody: null,
      maxBodyBytes: FETCH_LIMITS.maxBodyBytes,
      timeoutMs: FETCH_LIMITS.totalTimeoutMs,
    });
    const socket = createGuardedWebSocketConnector(policy)(`wss://${host}/`, () => true);
    const closed = once(socket, 'close');
    const [closeReason] = await Promise.race([once(socket, 'open'), closed]);
    socket.terminate();
    await closed;
    expect([
      response.outcome === 'unreachable' ? response.reason : response.outcome,
      closeReason?.reason ?? 'open',
    ]).toEqual(expected);
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

async function startHttpsServer(listener: RequestListener): Promise<number> {
  const tlsOptions = { key: TEST_PRIVATE_KEY, cert: TEST_CERTIFICATE };
  const { port, close } = await listenOnLoopback(createServer(tlsOptions, listener));
  onTestFinished(close);
  return port;
}
