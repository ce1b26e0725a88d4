import type { ClientRequest, ClientRequestArgs } from 'node:http';
import { isIP, Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { type RawData, WebSocket } from 'ws';
import { guardedLookup, type ResolveAll } from './address-guard.ts';
import { isForbiddenHost, isPublicPort } from './public-address.ts';
import { nameResolver } from './resolve-names.ts';
import { UnreachableError } from './unreachable-reason.ts';

/** From the call to the open socket, including name lookup and TLS. */
const HANDSHAKE_TIMEOUT_MS = 10_000;

/** For the closing handshake. */
const CLOSE_TIMEOUT_MS = 1_000;

/** A quote or a Nostr event is a few kB. */
const MAX_MESSAGE_BYTES = 256 * 1024;

/** The longest message in parts of 4 KiB. */
const MAX_FRAGMENTS = 64;

/**
 * Chunks of one message: twice as many as {@link MAX_MESSAGE_BYTES} need in the smallest packets of IPv4. A
 * server chooses the size of its TLS records, and assembling a message of 100,000 chunks would block the
 * event loop for seconds.
 */
const MAX_BUFFERED_CHUNKS = 1_024;

/** Each TLS record is a chunk and costs about 15 µs, however little it contains. Honest servers send far fewer. */
const MAX_CHUNKS_PER_SECOND = 10_000;

/** Interim responses to the handshake (RFC 9110 section 15.2): hosts send none or one. */
const MAX_INTERIM_RESPONSES = 8;

/** Of the response to the handshake: Node's default, whatever options the process was started with. */
const MAX_HEADER_BYTES = 16 * 1024;

/** Options of `ws`, which limits queued pongs by itself. */
const BOUNDS = {
  followRedirects: false,
  perMessageDeflate: false,
  maxPayload: MAX_MESSAGE_BYTES,
  maxFragments: MAX_FRAGMENTS,
  maxBufferedChunks: MAX_BUFFERED_CHUNKS,
  maxHeaderSize: MAX_HEADER_BYTES,
  closeTimeout: CLOSE_TIMEOUT_MS,
  // The default is what the environment says (NODE_TLS_REJECT_UNAUTHORIZED).
  rejectUnauthorized: true,
};

/** Opens a WebSocket to a `wss:` or, in development, `ws:` URL. A forbidden address causes `error` and `close`. */
export type SocketConnector = (url: string) => WebSocket;

/**
 * Creates a connector for WebSockets to hosts that users name, with the checks of {@link GuardedFetch}: only
 * wss to public ports of public addresses, checked at each connection; no redirect, no proxy from the
 * environment, no compression (a small message could unpack to a huge one), and limits of messages, their
 * chunks and the handshake.
 *
 * @param options.allowPrivateNetworks allows ws, any port and private addresses, for development
 * @param options.resolve finds the addresses that are checked
 */
export function guardedSocketConnector(options: {
  allowPrivateNetworks: boolean;
  handshakeTimeoutMs?: number;
  resolve?: ResolveAll;
}): SocketConnector {
  const resolve = options.resolve ?? nameResolver();
  return (url) => {
    const socket = new WebSocket(url, {
      ...(!options.allowPrivateNetworks && guardedConnection(url, resolve)),
      ...BOUNDS,
      // Some hosts reject requests without a user agent.
      headers: { 'User-Agent': 'nutpost' },
      finishRequest: sendHandshake,
    });
    // After a protocol error, `ws` would go on reading until the closing handshake.
    socket.once('error', () => socket.terminate());
    limitChunks(socket);
    limitHandshake(socket, options.handshakeTimeoutMs ?? HANDSHAKE_TIMEOUT_MS);
    return socket;
  };
}

/** With its own `createConnection`, a socket uses no agent, and therefore no proxy. */
function guardedConnection(
  url: string,
  resolve: ResolveAll,
): Pick<ClientRequestArgs, 'createConnection'> {
  const target = new URL(url);
  const host = target.hostname.replace(/^\[|\]$/g, '');
  const isForbidden = target.protocol !== 'wss:' || !isPublicPort(target) || isForbiddenHost(host);
  const lookup = guardedLookup(resolve);
  return {
    createConnection: ({ port }, done) => {
      if (isForbidden) {
        done(new UnreachableError('forbidden address'), new Socket());
        return undefined;
      }
      return connectTls({
        host,
        port: Number(port),
        lookup,
        rejectUnauthorized: BOUNDS.rejectUnauthorized,
        ALPNProtocols: ['http/1.1'],
        ...(isIP(host) === 0 && { servername: host }),
      });
    },
  };
}

/** A flood of interim responses would block the event loop, and with it the timeout of the handshake. */
function sendHandshake(request: ClientRequest): void {
  let interimResponses = 0;
  request.on('information', () => {
    interimResponses += 1;
    if (interimResponses > MAX_INTERIM_RESPONSES) {
      request.destroy(new Error('too many interim responses to the handshake'));
    }
  });
  request.end();
}

/** Also during the closing handshake, when `ws` enforces no limits. */
function limitChunks(socket: WebSocket): void {
  let secondStartedAt = -Infinity;
  let chunks = 0;
  const countChunk = () => {
    const now = performance.now();
    if (now - secondStartedAt >= 1_000) {
      secondStartedAt = now;
      chunks = 0;
    }
    chunks += 1;
    if (chunks > MAX_CHUNKS_PER_SECOND) {
      socket.terminate();
    }
  };
  // Not before the socket is open: this listener would take the first chunk away from `ws`.
  socket.once('upgrade', (response) => {
    socket.once('open', () => response.socket.on('data', countChunk));
  });
}

/** The timeout of `ws` is one of silence, so a server could send a byte now and then for ever. */
function limitHandshake(socket: WebSocket, timeoutMs: number): void {
  const deadline = lookAfter(timeoutMs, () => {
    if (socket.readyState === socket.CONNECTING) {
      socket.terminate();
    }
  });
  socket.once('open', () => clearTimeout(deadline));
  socket.once('close', () => clearTimeout(deadline));
}

export function byteLength(message: RawData): number {
  return Array.isArray(message)
    ? message.reduce((bytes, piece) => bytes + piece.byteLength, 0)
    : message.byteLength;
}

/**
 * Runs a check after a timeout, and after the messages that arrived in time but were not read yet because
 * this process was busy.
 */
export function lookAfter(delayMs: number, look: () => void): NodeJS.Timeout {
  return setTimeout(() => setImmediate(look), delayMs).unref();
}
