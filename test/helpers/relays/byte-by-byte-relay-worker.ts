import { createHash } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer, type TLSSocket } from 'node:tls';
import { parentPort, workerData } from 'node:worker_threads';
import { TEST_CERTIFICATE, TEST_PRIVATE_KEY } from '../network/test-certificate.ts';

/** What the relay sends after the WebSocket handshake. */
export type SentContent = 'long message' | 'short messages' | 'after close frame';

/** Sent on each connection. Stays below the client's limits for floods, which are 256 messages and 256 KiB. */
const SENT_BYTES = 200_000;

/** Frames that the relay sends at once before the single bytes (RFC 6455 section 5.2). */
const FIRST_BYTES: Readonly<Record<SentContent, Buffer>> = {
  // The header of a text message of almost 256 KiB. The single bytes are its payload.
  'long message': Buffer.from('817f000000000003fff0', 'hex'),
  'short messages': Buffer.of(),
  // A close frame.
  'after close frame': Buffer.of(0x88, 0),
};

/** The frame of a text message of a thousand characters. */
const SHORT_MESSAGE = Buffer.concat([Buffer.of(0x81, 126, 3, 0xe8), Buffer.alloc(1_000, 'x')]);

const content: SentContent = workerData;

/**
 * The worker runs a relay, with the test certificate for `mint.test`, and posts its port to the test. After the
 * handshake, the relay sends each byte in a separate TLS record.
 */
const server = createServer({ key: TEST_PRIVATE_KEY, cert: TEST_CERTIFICATE }, (socket) => {
  // The client disconnects while the relay is sending.
  socket.on('error', () => undefined);
  socket.setNoDelay(true);
  let handshake = '';
  socket.on('data', (data) => {
    handshake += data.toString('latin1');
    const key = /sec-websocket-key: (.*)\r\n/i.exec(handshake)?.[1];
    if (key !== undefined && handshake.includes('\r\n\r\n')) {
      socket.removeAllListeners('data').resume();
      acceptHandshake(socket, key);
      sendByteByByte(socket, 0);
    }
  });
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
parentPort?.postMessage((server.address() as AddressInfo).port);

/** Responds to the handshake (RFC 6455 section 4.2.2), and sends the first bytes. */
function acceptHandshake(socket: TLSSocket, key: string): void {
  const accept = createHash('sha1')
    .update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
    .digest('base64');
  socket.write(
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
      `Sec-WebSocket-Accept: ${accept}\r\n\r\n`,
  );
  socket.write(FIRST_BYTES[content]);
}

function sendByteByByte(socket: TLSSocket, sentCount: number): void {
  if (sentCount < SENT_BYTES && !socket.destroyed) {
    const position = sentCount % SHORT_MESSAGE.length;
    socket.write(SHORT_MESSAGE.subarray(position, position + 1), () =>
      sendByteByByte(socket, sentCount + 1),
    );
  }
}
