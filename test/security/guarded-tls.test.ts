import { EventEmitter, once } from 'node:events';
import type { RequestListener, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { WebSocketServer } from 'ws';
import { GuardedFetch } from '../../src/net/guarded-fetch.ts';
import { createGuardedWebSocketConnector } from '../../src/net/guarded-websocket.ts';
import { TEST_CERTIFICATE, TEST_PRIVATE_KEY } from '../helpers/test-certificate.ts';

/** Resolves every name to this machine, and treats it as a public host. */
vi.mock(import('../../src/net/address-guard.ts'), async (importOriginal) => ({
  ...(await importOriginal()),
  createGuardedLookup: () => (_hostname, options, callback) =>
    options.all
      ? callback(null, [{ address: '127.0.0.1', family: 4 }])
      : callback(null, '127.0.0.1', 4),
}));

const server = createServer(
  { key: TEST_PRIVATE_KEY, cert: TEST_CERTIFICATE },
  (_request, response) => response.end('hello'),
);
const sockets = new WebSocketServer({ server });
const guarded = new GuardedFetch({ allowPrivateNetworks: false });
const connect = createGuardedWebSocketConnector({ allowPrivateNetworks: false });
let port: number;

beforeAll(async () => {
  setDefaultCACertificates([...getCACertificates('default'), TEST_CERTIFICATE]);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  port = (server.address() as AddressInfo).port;
});
afterAll(async () => {
  await guarded.close();
  sockets.close();
  server.close();
});

describe('the guard in production', () => {
  it('allows a request to a public host over TLS', async () => {
    const answer = await guarded.request({ method: 'GET', url: `https://mint.test:${port}/` });
    expect(answer).toMatchObject({ outcome: 'responded', status: 200, text: 'hello' });
  });

  it('allows a socket to a public host over TLS', async () => {
    const arrival = once(sockets, 'connection');
    const socket = connect(`wss://mint.test:${port}/v1/ws`);
    await once(socket, 'open');
    const [, request] = await arrival;
    expect([request.url, request.headers.host]).toEqual(['/v1/ws', `mint.test:${port}`]);
    socket.terminate();
    await once(socket, 'close');
  });

  it('requires a certificate of the requested name', async () => {
    const answer = await guarded.request({ method: 'GET', url: `https://other.test:${port}/` });
    expect(answer).toEqual({ outcome: 'unreachable', reason: 'bad certificate', isUnsent: true });
    const [error] = await once(connect(`wss://other.test:${port}/`), 'error');
    expect(error).toMatchObject({ code: 'ERR_TLS_CERT_ALTNAME_INVALID' });
  });

  it('limits concurrent requests to a host across its ports', async () => {
    const arrivals = new EventEmitter();
    const waiting: ServerResponse[] = [];
    const ports = await Promise.all(
      Array.from({ length: 40 }, () =>
        listenAt((_request, response) => {
          waiting.push(response);
          arrivals.emit('arrival');
        }),
      ),
    );
    const own = await listenAt((_request, response) => response.end('own'));
    const trusting = new GuardedFetch({
      allowPrivateNetworks: false,
      operatorOrigins: [`https://mint.test:${own}`],
    });
    onTestFinished(() => trusting.close());
    const ask = (port: number) =>
      trusting.request({ method: 'GET', url: `https://mint.test:${port}/` });
    const answers = ports.map(ask);
    while (waiting.length < 32) {
      await once(arrivals, 'arrival');
    }
    // An operator origin on the same host has its own slots.
    expect(await ask(own)).toMatchObject({ text: 'own' });
    expect(waiting).toHaveLength(32);
    arrivals.on('arrival', () => waiting.at(-1)?.end('late'));
    for (const response of waiting) {
      response.end('late');
    }
    expect(await Promise.all(answers)).toMatchObject(Array(40).fill({ text: 'late' }));
  });
});

/** Another port of the same host. */
async function listenAt(listener: RequestListener): Promise<number> {
  const other = createServer({ key: TEST_PRIVATE_KEY, cert: TEST_CERTIFICATE }, listener).listen(
    0,
    '127.0.0.1',
  );
  await once(other, 'listening');
  onTestFinished(() => {
    other.closeAllConnections();
    other.close();
  });
  return (other.address() as AddressInfo).port;
}
