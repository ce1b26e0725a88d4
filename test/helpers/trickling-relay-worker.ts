import { createHash } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer, type TLSSocket } from 'node:tls';
import { parentPort, workerData } from 'node:worker_threads';
import { TEST_CERTIFICATE, TEST_PRIVATE_KEY } from './test-certificate.ts';

/** Below the flood limits: fewer than 256 short messages and 256 KiB. */
const TRICKLED_BYTES = 200_000;

/** The messages to send. */
export type TrickleMode = 'message' | 'short messages' | 'after goodbye';

/** The first bytes (RFC 6455 section 5.2): the header of a message of almost 256 KiB, nothing, or a close frame. */
const FIRST_BYTES: Readonly<Record<TrickleMode, Buffer>> = {
  message: Buffer.from('817f000000000003fff0', 'hex'),
  'short messages': Buffer.of(),
  'after goodbye': Buffer.of(0x88, 0),
};

/** A text of a thousand characters. */
const SHORT_MESSAGE = Buffer.concat([Buffer.of(0x81, 126, 3, 0xe8), Buffer.alloc(1_000, 'x')]);

const mode: TrickleMode = workerData;

/** A worker: a relay at `mint.test` that sends very much, each byte in a separate TLS record. */
const server = createServer({ key: TEST_PRIVATE_KEY, cert: TEST_CERTIFICATE }, (peer) => {
  // Clients disconnect.
  peer.on('error', () => undefined);
  peer.setNoDelay(true);
  let head = '';
  peer.on('data', (data) => {
    head += data.toString('latin1');
    const key = /sec-websocket-key: (.*)\r\n/i.exec(head)?.[1];
    if (key !== undefined && head.includes('\r\n\r\n')) {
      peer.removeAllListeners('data').resume();
      acceptWebSocket(peer, key);
      trickleBytes(peer, 0);
    }
  });
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
parentPort?.postMessage((server.address() as AddressInfo).port);

/** Completes the handshake (RFC 6455 section 4.2.2) and writes the header of a text frame. */
function acceptWebSocket(peer: TLSSocket, key: string): void {
  const accept = createHash('sha1')
    .update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
    .digest('base64');
  peer.write(
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
      `Sec-WebSocket-Accept: ${accept}\r\n\r\n`,
  );
  peer.write(FIRST_BYTES[mode]);
}

function trickleBytes(peer: TLSSocket, at: number): void {
  if (at < TRICKLED_BYTES && !peer.destroyed) {
    peer.write(SHORT_MESSAGE.subarray(at % SHORT_MESSAGE.length).subarray(0, 1), () =>
      trickleBytes(peer, at + 1),
    );
  }
}
