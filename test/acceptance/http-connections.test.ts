import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import {
  expectErrorResponse,
  sendRawBytes,
  sendRawRequest,
} from '../helpers/network/raw-http-requests.ts';
import {
  buildQuoteSocketHandshake,
  RawWebSocket,
} from '../helpers/network/raw-websocket-client.ts';
import { type ApiResponse, TestQuoteSocket } from '../helpers/recipients/recipient-client.ts';
import { startAdditionalService, useTestEnvironment } from '../helpers/service/test-environment.ts';

const API_ERROR = { error: true, code: expect.any(String), message: expect.any(String) };
const LNURL_ERROR = { status: 'ERROR', reason: expect.any(String) };
const VERIFY_ERROR = { status: 'ERROR', reason: 'Not found' };

const environment = useTestEnvironment();

const POST_HEAD = 'POST /api/v2/info HTTP/1.1\r\nHost: x\r\n';
/** The path of a malformed request is unknown, so the body has the fields of every error format. */
const NOT_HTTP_BODY =
  '{"error":true,"code":"invalid","message":"The request is not valid HTTP.",' +
  '"status":"ERROR","reason":"The request is not valid HTTP."}';
const VALID_REQUEST = 'GET /api/v2/info HTTP/1.1\r\nHost: x\r\n\r\n';

it.each([
  [
    'both Content-Length and chunked encoding',
    `${POST_HEAD}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ],
  ['bare LF line endings', `${POST_HEAD.replaceAll('\r', '')}Content-Length: 0\n\n`],
  ['a folded header line', `${POST_HEAD}X-A: b\r\n Content-Length: 0\r\n\r\n`],
  ['an invalid chunk size', `${POST_HEAD}Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n`],
])('rejects a request with %s and ignores the bytes after it', async (_case, bytes) => {
  const response = await sendRawBytes(environment.service.url, bytes + VALID_REQUEST);
  expect(response.match(/HTTP\/1\.1 \d{3}/g)).toEqual(['HTTP/1.1 400']);
  expect(response).toContain(NOT_HTTP_BODY);
});

it('responds to a client that half-closes its connection after the request', async () => {
  const { hostname, port } = new URL(environment.service.url);
  const socket = connect(Number(port), hostname);
  socket.end('GET /api/v2/auth/nip98 HTTP/1.1\r\nHost: x\r\nAuthorization: Nostr e30=\r\n\r\n');
  expect(await text(socket)).toContain('HTTP/1.1 401 ');
});

it.each([
  ['with the method OPTIONS', buildQuoteSocketHandshake().replace(/^GET/, 'OPTIONS')],
  ['pipelined behind another request', VALID_REQUEST + buildQuoteSocketHandshake()],
])('does not leak the connection of an upgrade request %s', async (_case, bytes) => {
  const service = await startAdditionalService(environment, {});
  const rawSocket = await RawWebSocket.connect(service.url, bytes);
  // 204 for OPTIONS, 200 for the first of two pipelined requests.
  await rawSocket.waitForText('HTTP/1.1 20');
  rawSocket.connection.end();
  await rawSocket.waitForClose();
  await service.stop();
});

it('stops if a client completes its WebSocket handshake during the shutdown', async () => {
  const service = await startAdditionalService(environment, {});
  const handshake = buildQuoteSocketHandshake();
  const rawSocket = await RawWebSocket.connect(service.url, handshake.slice(0, 40));
  const socket = new TestQuoteSocket(service.url);
  await socket.nextMessage();
  const stopped = service.stop();
  expect(await socket.nextMessage()).toMatchObject({ type: 'error' });
  rawSocket.send(Buffer.from(handshake.slice(40)));
  await stopped;
  rawSocket.connection.destroy();
});

describe('an unreadable request', () => {
  it.each([
    ['/api/v2/wallet/%zz', 400, API_ERROR],
    ['/%ff', 400, API_ERROR],
    ['/.well-known/lnurlp/%zz', 200, LNURL_ERROR],
    ['/lnurl/verify/%zz', 200, VERIFY_ERROR],
  ])(
    'with the invalid percent-encoding %s gets an error in the format of its path',
    async (path, status, error) => {
      expectErrorResponse(await sendRawRequest(environment.origin, path), status, error);
    },
  );

  it.each([
    ['/api/v2/info', API_ERROR],
    ['/.well-known/lnurlp/alice?amount=1000', LNURL_ERROR],
    ['/.well-known/nostr.json?name=alice', API_ERROR],
  ])('with oversized headers gets 431 in the error format of %s', async (path, error) => {
    const head = `GET ${path} HTTP/1.1\r\nHost: localhost\r\n`;
    // Just over the limit of 64 KiB, and far over it.
    for (const headerBytes of [66_000, 200_000]) {
      const response = await sendRawBytes(
        environment.origin,
        `${head}X-Cashu: ${'c'.repeat(headerBytes)}\r\n\r\n`,
      );
      expectErrorResponse(parseResponse(response), 431, expect.objectContaining(error));
    }
  });
});

describe('an unusual but valid request', () => {
  it('may lack the Host header or have an unknown Expect header', async () => {
    for (const header of ['', 'Host: x\r\nExpect: the-unexpected\r\n']) {
      const response = await sendRawBytes(
        environment.origin,
        `GET /api/v2/info HTTP/1.1\r\n${header}Connection: close\r\n\r\n`,
      );
      expect(response).toMatch(/^HTTP\/1.1 200 /);
    }
  });

  it('creates no invoice if its method is HEAD', async () => {
    const countCreatedQuotes = () => environment.mint.requestCounts['POST /v1/mint/quote/bolt11'];
    const countBefore = countCreatedQuotes();
    const path = `/.well-known/lnurlp/${environment.newWallet().npub}?amount=21000`;
    const response = await fetch(`${environment.origin}${path}`, { method: 'HEAD' });
    expect(response.status).toBe(200);
    expect(countCreatedQuotes()).toBe(countBefore);
  });
});

function parseResponse(rawResponse: string): ApiResponse {
  const [head = '', body = ''] = rawResponse.split('\r\n\r\n');
  const [statusLine = '', ...lines] = head.split('\r\n');
  return {
    status: Number(statusLine.split(' ')[1]),
    headers: new Headers(lines.map((line) => line.split(': ', 2) as [string, string])),
    body: JSON.parse(body),
  };
}
