import { createHash } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer, type TLSSocket } from 'node:tls';
import { parentPort, workerData } from 'node:worker_threads';
import { CERTIFICATE, KEY } from './mint-certificate.ts';

/** Less than would be a flood by what it says: fewer than 256 of the short messages, and 256 KiB. */
const SAID_BYTES = 200_000;

/** What it says. */
export type Dribble = 'message' | 'short messages' | 'after goodbye';

/** How it begins (RFC 6455 section 5.2): the head of a message of almost 256 KiB, nothing, a goodbye. */
const BEGINNINGS: Readonly<Record<Dribble, Buffer>> = {
  message: Buffer.from('817f000000000003fff0', 'hex'),
  'short messages': Buffer.of(),
  'after goodbye': Buffer.of(0x88, 0),
};

/** A text of a thousand characters. */
const SHORT_MESSAGE = Buffer.concat([Buffer.of(0x81, 126, 3, 0xe8), Buffer.alloc(1_000, 'x')]);

const what: Dribble = workerData;

/** A worker: a relay at `mint.test` that says very much, each byte in a TLS record of its own. */
const server = createServer({ key: KEY, cert: CERTIFICATE }, (peer) => {
  // Its victims hang up on it.
  peer.on('error', () => undefined);
  peer.setNoDelay(true);
  let head = '';
  peer.on('data', (data) => {
    head += data.toString('latin1');
    const key = /sec-websocket-key: (.*)\r\n/i.exec(head)?.[1];
    if (key !== undefined && head.includes('\r\n\r\n')) {
      peer.removeAllListeners('data').resume();
      beginMessage(peer, key);
      dribble(peer, 0);
    }
  });
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
parentPort?.postMessage((server.address() as AddressInfo).port);

/** Shakes hands (RFC 6455 section 4.2.2), and writes the head of a frame with a text. */
function beginMessage(peer: TLSSocket, key: string): void {
  const accept = createHash('sha1')
    .update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
    .digest('base64');
  peer.write(
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
      `Sec-WebSocket-Accept: ${accept}\r\n\r\n`,
  );
  peer.write(BEGINNINGS[what]);
}

function dribble(peer: TLSSocket, at: number): void {
  if (at < SAID_BYTES && !peer.destroyed) {
    peer.write(SHORT_MESSAGE.subarray(at % SHORT_MESSAGE.length).subarray(0, 1), () =>
      dribble(peer, at + 1),
    );
  }
}
