import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { expectError, plainRequest, sendBytes } from '../helpers/plain-http.ts';
import { RawSocket, upgradeRequest } from '../helpers/raw-socket.ts';
import { type ApiAnswer, TestSocket } from '../helpers/wallet.ts';
import { startBeside, useWorld } from '../helpers/world.ts';

/** Requests as bytes: unreadable, ambiguous or odd ones, and what follows them on a connection. */

const API_ERROR = { error: true, message: expect.any(String) };
const LNURL_ERROR = { status: 'ERROR', reason: expect.any(String) };
const VERIFY_ERROR = { status: 'ERROR', reason: 'Not found' };

const world = useWorld();

const HEAD = 'POST /api/v2/info HTTP/1.1\r\nHost: x\r\n';
/** In the fields of every error format: what the request is for is not known. */
const NOT_HTTP =
  '{"error":true,"message":"The request is not valid HTTP.",' +
  '"status":"ERROR","reason":"The request is not valid HTTP."}';
const SMUGGLED = 'GET /api/v2/info HTTP/1.1\r\nHost: x\r\n\r\n';

it.each([
  [
    'a length and chunks',
    `${HEAD}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ],
  ['chunks that are none', `${HEAD}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`],
  ['chunks by another name', `${HEAD}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`],
  ['two lengths in one', `${HEAD}Content-Length: 0, 3\r\n\r\n`],
  ['a blank before the colon', `${HEAD}Content-Length : 0\r\n\r\n`],
  ['lines that end in LF alone', `${HEAD.replaceAll('\r', '')}Content-Length: 0\n\n`],
  ['a header that goes on in a next line', `${HEAD}X-A: b\r\n Content-Length: 0\r\n\r\n`],
  ['a CR within a header', `${HEAD}X-A: b\rContent-Length: 0\r\n\r\n`],
  ['a chunk’s size that is none', `${HEAD}Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n`],
])('a request with %s is refused, and nothing after it is read', async (_what, bytes) => {
  const answer = await sendBytes(world.service.url, bytes + SMUGGLED);
  expect(answer.match(/HTTP\/1\.1 \d{3}/g)).toEqual(['HTTP/1.1 400']);
  expect(answer).toContain(NOT_HTTP);
});

it('the rest of a request that was refused early gets no second answer', async () => {
  const { hostname, port } = new URL(world.service.url);
  const socket = connect(Number(port), hostname);
  const answered = text(socket);
  socket.write(
    'PATCH /api/v2/user/lock HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n',
  );
  await once(socket, 'readable');
  socket.write('this is no chunk\r\n');
  expect((await answered).match(/HTTP\/1\.1 \d{3}/g)).toEqual(['HTTP/1.1 401']);
});

it('a client that sends no more after its signed request is answered', async () => {
  const { hostname, port } = new URL(world.service.url);
  const socket = connect(Number(port), hostname);
  socket.end('GET /api/v2/auth/nip98 HTTP/1.1\r\nHost: x\r\nAuthorization: Nostr e30=\r\n\r\n');
  expect(await text(socket)).toContain('HTTP/1.1 401 ');
});

it('a request that cannot be read gets its own answer after one that was answered', async () => {
  const answer = await sendBytes(world.service.url, `${SMUGGLED}HELLO\r\n\r\n`);
  expect(answer.match(/HTTP\/1\.1 \d{3}/g)).toHaveLength(2);
  expect(answer).toContain('The request is not valid HTTP.');
});

it.each([
  ['of a preflight', upgradeRequest().replace(/^GET/, 'OPTIONS')],
  ['behind a request that is still being answered', SMUGGLED + upgradeRequest()],
])('an upgrade %s leaves no connection that nobody ends', async (_what, bytes) => {
  const service = await startBeside(world, {});
  const raw = await RawSocket.connect(service.url, bytes);
  await raw.receive('HTTP/1.1 20');
  raw.connection.end();
  await raw.gone();
  await service.stop();
});

it('a handshake that ends while the service stops does not hold it up', async () => {
  const service = await startBeside(world, {});
  const raw = await RawSocket.connect(service.url, upgradeRequest().slice(0, 40));
  const socket = new TestSocket(service.url);
  await socket.next();
  const stopped = service.stop();
  expect(await socket.next()).toMatchObject({ type: 'error' });
  raw.send(Buffer.from(upgradeRequest().slice(40)));
  await stopped;
  raw.connection.destroy();
});

describe('a request that cannot be read', () => {
  it.each([
    ['/api/v2/wallet/%zz', 400, API_ERROR],
    ['/%ff', 400, API_ERROR],
    ['/.well-known/lnurlp/%zz', 200, LNURL_ERROR],
    ['/lnurl/verify/%zz', 200, VERIFY_ERROR],
  ])('for its encoding, such as %s', async (path, status, error) => {
    expectError(await plainRequest(world.base, path), status, error);
  });

  it.each([
    ['/api/v2/info', API_ERROR],
    ['/.well-known/lnurlp/alice?amount=1000', LNURL_ERROR],
    ['/.well-known/nostr.json?name=alice', API_ERROR],
  ])('for the size of its headers is refused in the way of %s', async (path, error) => {
    const head = `GET ${path} HTTP/1.1\r\nHost: localhost\r\n`;
    for (const size of [66_000, 200_000]) {
      const answer = await sendBytes(world.base, `${head}X-Cashu: ${'c'.repeat(size)}\r\n\r\n`);
      expectError(parseAnswer(answer), 431, expect.objectContaining(error));
    }
  });
});

describe('a request that is odd, and yet one', () => {
  it('may name its whole target, and is answered in the way of the path', async () => {
    const answer = await sendBytes(
      world.base,
      'GET http://elsewhere.test/.well-known/lnurlp/npub1x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
    );
    expect(answer).toMatch(/^HTTP\/1.1 200 /);
    expect(answer).toContain('{"status":"ERROR","reason":"Invalid recipient."}');
  });

  it('may lack the Host header, or expect what nobody knows', async () => {
    for (const header of ['', 'Host: x\r\nExpect: the-unexpected\r\n']) {
      const answer = await sendBytes(
        world.base,
        `GET /api/v2/info HTTP/1.1\r\n${header}Connection: close\r\n\r\n`,
      );
      expect(answer).toMatch(/^HTTP\/1.1 200 /);
    }
  });

  it('gets no invoice where it asks for the head of one alone', async () => {
    const created = () => world.mint.requestCounts['POST /v1/mint/quote/bolt11'];
    const before = created();
    const path = `/.well-known/lnurlp/${world.newWallet().npub}?amount=21000`;
    const answer = await fetch(`${world.base}${path}`, { method: 'HEAD' });
    expect(answer.status).toBe(200);
    expect(created()).toBe(before);
  });
});

/** The status, headers and JSON body of an answer as it came over the wire. */
function parseAnswer(text: string): ApiAnswer {
  const [head = '', body = ''] = text.split('\r\n\r\n');
  const [statusLine = '', ...lines] = head.split('\r\n');
  return {
    status: Number(statusLine.split(' ')[1]),
    headers: new Headers(lines.map((line) => line.split(': ', 2) as [string, string])),
    body: JSON.parse(body),
  };
}
