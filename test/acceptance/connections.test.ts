import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { sendBytes } from '../helpers/plain-http.ts';
import { RawSocket, upgradeRequest } from '../helpers/raw-socket.ts';
import { startBeside } from '../helpers/second-service.ts';
import { TestSocket } from '../helpers/wallet.ts';
import { openWorld, type World } from '../helpers/world.ts';

/** A connection carries requests that two readers cannot take for different ones, and one answer to each. */

let world: World;

beforeAll(async () => {
  world = await openWorld();
});

afterAll(() => world.close());

const HEAD = 'POST /api/v2/info HTTP/1.1\r\nHost: x\r\n';
const SMUGGLED = 'GET /api/v2/info HTTP/1.1\r\nHost: x\r\n\r\n';

it.each([
  [
    'a length and chunks',
    `${HEAD}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ],
  ['chunks that are none', `${HEAD}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`],
  ['chunks by another name', `${HEAD}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`],
  ['two lengths in one', `${HEAD}Content-Length: 0, 3\r\n\r\n`],
  ['a length with a sign', `${HEAD}Content-Length: +0\r\n\r\n`],
  ['a blank before the colon', `${HEAD}Content-Length : 0\r\n\r\n`],
  ['lines that end in LF alone', `${HEAD.replaceAll('\r', '')}Content-Length: 0\n\n`],
  ['a header that goes on in a next line', `${HEAD}X-A: b\r\n Content-Length: 0\r\n\r\n`],
  ['a CR within a header', `${HEAD}X-A: b\rContent-Length: 0\r\n\r\n`],
  ['a chunk’s size that is none', `${HEAD}Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n`],
])('a request with %s is refused, and nothing after it is read', async (_what, bytes) => {
  const answer = await sendBytes(world.service.url, bytes + SMUGGLED);
  expect(answer.match(/HTTP\/1\.1 \d{3}/g)).toEqual(['HTTP/1.1 400']);
  expect(answer).toContain('{"error":true,"message":"The request is not valid HTTP."}');
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
  // Refused in the same turn in which its signature would be checked.
  socket.end('GET /api/v2/auth/nip98 HTTP/1.1\r\nHost: x\r\nAuthorization: Nostr e30=\r\n\r\n');
  expect(await text(socket)).toContain('HTTP/1.1 401 ');
});

it('a request that cannot be read is refused in the way of its own path, whatever came with it', async () => {
  const unreadable = `BREW /lnurl/verify/${'0'.repeat(64)} HTTP/1.1\r\nHost: x\r\n\r\n`;
  const answer = await sendBytes(world.service.url, SMUGGLED + unreadable);
  expect(answer.match(/HTTP\/1\.1 \d{3}/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 400']);
  expect(answer).toContain('{"status":"ERROR","reason":"');
});

it('a body that cannot be read is refused in the way of its own path, not of an earlier one', async () => {
  const wallet = world.newWallet();
  const verify = `GET /lnurl/verify/${'0'.repeat(64)} HTTP/1.1\r\nHost: x\r\n\r\n`;
  const [head, rest] = [
    'PATCH /api/v2/user/mint HTTP/1.1\r\nHost: ',
    `x\r\nAuthorization: ${wallet.sign('/api/v2/user/mint', 'PATCH')}\r\n` +
      'Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n',
  ];
  // Its headers come in pieces, the first of them right behind the earlier request.
  const raw = await RawSocket.connect(world.service.url, verify + head);
  await raw.receive('"status":"ERROR"');
  raw.send(Buffer.from(rest));
  await raw.gone();
  expect(raw.received.match(/HTTP\/1\.1 \d{3}/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 400']);
  expect(raw.received).toContain('{"error":true,"message":"The request is not valid HTTP."}');
});

it('a request that cannot be read gets its own answer after one that was answered', async () => {
  const answer = await sendBytes(world.service.url, `${SMUGGLED}HELLO\r\n\r\n`);
  expect(answer.match(/HTTP\/1\.1 \d{3}/g)).toHaveLength(2);
  expect(answer).toContain('The request is not valid HTTP.');
});

it('an answer tells how long its connection is kept for the next request', async () => {
  const raw = await RawSocket.connect(world.service.url, SMUGGLED);
  await raw.receive('\r\n\r\n');
  expect(raw.received).toContain('\r\nkeep-alive: timeout=72\r\n');
  expect(raw.received).toMatch(/\r\nConnection: keep-alive\r\n/i);
  raw.connection.destroy();
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
