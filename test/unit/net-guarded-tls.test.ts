import { once } from 'node:events';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { WebSocketServer } from 'ws';
import { GuardedFetch } from '../../src/net/guarded-fetch.ts';
import { guardedSocketConnector } from '../../src/net/guarded-socket.ts';

/** Every name is a public host, which happens to be here. */
vi.mock(import('../../src/net/address-guard.ts'), async (importOriginal) => ({
  ...(await importOriginal()),
  guardedLookup: () => (_hostname, options, callback) =>
    options.all
      ? callback(null, [{ address: '127.0.0.1', family: 4 }])
      : callback(null, '127.0.0.1', 4),
}));

/** Of `mint.test`, signed by itself, good for a hundred years; it guards nothing. */
const KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgKZ1XO0PFInbaaK+X
E1S4MduR/l8ZarEnCKKNLYOs4/ehRANCAARTSFDR63agcudqH3QpwiI9HVj05Qtt
9ZlHgw67gH3KrA75ZiYQMU1HKDCjNqZKbGQV6DIzPwGK1q+T3yg5dH4C
-----END PRIVATE KEY-----`;
const CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBYDCCAQegAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAltaW50LnRl
c3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CW1pbnQudGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABFNIUNHrdqBy52of
dCnCIj0dWPTlC231mUeDDruAfcqsDvlmJhAxTUcoMKM2pkpsZBXoMjM/AYrWr5Pf
KDl0fgKjSDBGMA8GA1UdEwEB/wQFMAMBAf8wFAYDVR0RBA0wC4IJbWludC50ZXN0
MB0GA1UdDgQWBBS3qnc1hqLroHH5VccdF4BYMb6nzjAKBggqhkjOPQQDAgNHADBE
AiAqP2SjOVmdBg9ofYYgrAkU2dRN3fnF5jfbpKdb1Y+ssAIgLbQ2xf03kdFFmNSE
SVU2lUJiBGMn4hsAfwoVexHTbWA=
-----END CERTIFICATE-----`;

const server = createServer({ key: KEY, cert: CERTIFICATE }, (_request, response) =>
  response.end('hello'),
);
const sockets = new WebSocketServer({ server });
const guarded = new GuardedFetch({ allowPrivateNetworks: false });
const connect = guardedSocketConnector({ allowPrivateNetworks: false });
let port: number;

beforeAll(async () => {
  setDefaultCACertificates([...getCACertificates('default'), CERTIFICATE]);
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
  it('lets a request to a public host through, over TLS', async () => {
    const answer = await guarded.request({ method: 'GET', url: `https://mint.test:${port}/` });
    expect(answer).toMatchObject({ outcome: 'answered', status: 200, text: 'hello' });
  });

  it('lets a socket to a public host through, over TLS', async () => {
    const arrival = once(sockets, 'connection');
    const socket = connect(`wss://mint.test:${port}/v1/ws`);
    await once(socket, 'open');
    const [, request] = await arrival;
    expect([request.url, request.headers.host]).toEqual(['/v1/ws', `mint.test:${port}`]);
    socket.terminate();
    await once(socket, 'close');
  });

  it('holds both to the certificate of the name that was asked for', async () => {
    const answer = await guarded.request({ method: 'GET', url: `https://other.test:${port}/` });
    expect(answer).toEqual({ outcome: 'unreachable', reason: 'bad certificate', isUnsent: true });
    const [error] = await once(connect(`wss://other.test:${port}/`), 'error');
    expect(error).toMatchObject({ code: 'ERR_TLS_CERT_ALTNAME_INVALID' });
  });
});
