import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { expectErrorResponse, sendRawBytes, sendRawRequest } from '../helpers/raw-http.ts';
import { buildUpgradeRequest, RawWebSocket } from '../helpers/raw-websocket.ts';
import { startAdditionalService, useTestEnvironment } from '../helpers/test-environment.ts';
import { type ApiResponse, TestQuoteSocket } from '../helpers/test-wallet.ts';

/** Raw requests: malformed, ambiguous and unusual ones, and the state of the connection after them. */

const API_ERROR = { error: true, message: expect.any(String) };
const LNURL_ERROR = { status: 'ERROR', reason: expect.any(String) };
const VERIFY_ERROR = { status: 'ERROR', reason: 'Not found' };

const world = useTestEnvironment();

const HEAD = 'POST /api/v2/info HTTP/1.1\r\nHost: x\r\n';
/** Has the fields of every error format, because the path is unknown. */
const NOT_HTTP =
  '{"error":true,"message":"The request is not valid HTTP.",' +
  '"status":"ERROR","reason":"The request is not valid HTTP."}';
const SMUGGLED = 'GET /api/v2/info HTTP/1.1\r\nHost: x\r\n\r\n';

it.each([
  [
    'both Content-Length and chunked encoding',
    `${HEAD}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ],
  [
    'an unsupported transfer coding after chunked',
    `${HEAD}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`,
  ],
  ['an unknown transfer coding', `${HEAD}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`],
  ['two values in Content-Length', `${HEAD}Content-Length: 0, 3\r\n\r\n`],
  ['a space before the colon', `${HEAD}Content-Length : 0\r\n\r\n`],
  ['bare LF line endings', `${HEAD.replaceAll('\r', '')}Content-Length: 0\n\n`],
  ['a folded header line', `${HEAD}X-A: b\r\n Content-Length: 0\r\n\r\n`],
  ['a bare CR within a header', `${HEAD}X-A: b\rContent-Length: 0\r\n\r\n`],
  ['an invalid chunk size', `${HEAD}Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n`],
])('rejects a request with %s and ignores the bytes after it', async (_case, bytes) => {
  const response = await sendRawBytes(world.service.url, bytes + SMUGGLED);
  expect(response.match(/HTTP\/1\.1 \d{3}/g)).toEqual(['HTTP/1.1 400']);
  expect(response).toContain(NOT_HTTP);
});

it('sends no second response for the rest of a request that was rejected early', async () => {
  const { hostname, port } = new URL(world.service.url);
  const socket = connect(Number(port), hostname);
  const received = text(socket);
  socket.write(
    'PATCH /api/v2/user/lock HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n',
  );
  await once(socket, 'readable');
  socket.write('this is not a chunk\r\n');
  expect((await received).match(/HTTP\/1\.1 \d{3}/g)).toEqual(['HTTP/1.1 401']);
});

it('responds to a client that half-closes its connection after the request', async () => {
  const { hostname, port } = new URL(world.service.url);
  const socket = connect(Number(port), hostname);
  socket.end('GET /api/v2/auth/nip98 HTTP/1.1\r\nHost: x\r\nAuthorization: Nostr e30=\r\n\r\n');
  expect(await text(socket)).toContain('HTTP/1.1 401 ');
});

it('sends a separate 400 for a malformed request after a valid one', async () => {
  const response = await sendRawBytes(world.service.url, `${SMUGGLED}HELLO\r\n\r\n`);
  expect(response.match(/HTTP\/1\.1 \d{3}/g)).toHaveLength(2);
  expect(response).toContain('The request is not valid HTTP.');
});

it.each([
  ['with the method OPTIONS', buildUpgradeRequest().replace(/^GET/, 'OPTIONS')],
  ['pipelined behind another request', SMUGGLED + buildUpgradeRequest()],
])('does not leak the connection of an upgrade request %s', async (_case, bytes) => {
  const service = await startAdditionalService(world, {});
  const raw = await RawWebSocket.connect(service.url, bytes);
  await raw.waitForText('HTTP/1.1 20');
  raw.connection.end();
  await raw.waitForClose();
  await service.stop();
});

it('stops without waiting for an incomplete handshake', async () => {
  const service = await startAdditionalService(world, {});
  const raw = await RawWebSocket.connect(service.url, buildUpgradeRequest().slice(0, 40));
  const socket = new TestQuoteSocket(service.url);
  await socket.nextMessage();
  const stopped = service.stop();
  expect(await socket.nextMessage()).toMatchObject({ type: 'error' });
  raw.send(Buffer.from(buildUpgradeRequest().slice(40)));
  await stopped;
  raw.connection.destroy();
});

describe('an unreadable request', () => {
  it.each([
    ['/api/v2/wallet/%zz', 400, API_ERROR],
    ['/%ff', 400, API_ERROR],
    ['/.well-known/lnurlp/%zz', 200, LNURL_ERROR],
    ['/lnurl/verify/%zz', 200, VERIFY_ERROR],
  ])(
    'with invalid percent-encoding gets an error in the format of its path: %s',
    async (path, status, error) => {
      expectErrorResponse(await sendRawRequest(world.origin, path), status, error);
    },
  );

  it.each([
    ['/api/v2/info', API_ERROR],
    ['/.well-known/lnurlp/alice?amount=1000', LNURL_ERROR],
    ['/.well-known/nostr.json?name=alice', API_ERROR],
  ])('with oversized headers gets 431 in the error format of %s', async (path, error) => {
    const head = `GET ${path} HTTP/1.1\r\nHost: localhost\r\n`;
    for (const size of [66_000, 200_000]) {
      const response = await sendRawBytes(
        world.origin,
        `${head}X-Cashu: ${'c'.repeat(size)}\r\n\r\n`,
      );
      expectErrorResponse(parseResponse(response), 431, expect.objectContaining(error));
    }
  });
});

describe('an unusual but valid request', () => {
  it('may use an absolute URL as its target', async () => {
    const response = await sendRawBytes(
      world.origin,
      'GET http://elsewhere.test/.well-known/lnurlp/npub1x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
    );
    expect(response).toMatch(/^HTTP\/1.1 200 /);
    expect(response).toContain('{"status":"ERROR","reason":"Invalid recipient."}');
  });

  it('may lack the Host header or have an unknown Expect header', async () => {
    for (const header of ['', 'Host: x\r\nExpect: the-unexpected\r\n']) {
      const response = await sendRawBytes(
        world.origin,
        `GET /api/v2/info HTTP/1.1\r\n${header}Connection: close\r\n\r\n`,
      );
      expect(response).toMatch(/^HTTP\/1.1 200 /);
    }
  });

  it('creates no invoice if its method is HEAD', async () => {
    const created = () => world.mint.requestCounts['POST /v1/mint/quote/bolt11'];
    const before = created();
    const path = `/.well-known/lnurlp/${world.newWallet().npub}?amount=21000`;
    const response = await fetch(`${world.origin}${path}`, { method: 'HEAD' });
    expect(response.status).toBe(200);
    expect(created()).toBe(before);
  });
});

/** Parses a raw HTTP response with a JSON body. */
function parseResponse(text: string): ApiResponse {
  const [head = '', body = ''] = text.split('\r\n\r\n');
  const [statusLine = '', ...lines] = head.split('\r\n');
  return {
    status: Number(statusLine.split(' ')[1]),
    headers: new Headers(lines.map((line) => line.split(': ', 2) as [string, string])),
    body: JSON.parse(body),
  };
}
