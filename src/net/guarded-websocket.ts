import type { ClientRequest, ClientRequestArgs } from 'node:http';
import { isIP, type LookupFunction, Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { type RawData, WebSocket } from 'ws';
import '../address-timeout.ts';
import { createGuardedLookup, type ResolveHostname } from './address-guard.ts';
import { createDnsResolver } from './dns-resolver.ts';
import { isAllowedPort, isForbiddenHost } from './public-address.ts';
import { RequestFailure } from './request-failure.ts';

/** Includes the name lookup and the TLS handshake. */
const HANDSHAKE_TIMEOUT_MS = 10_000;

/** A chunk is one TLS record. It costs about 15 µs, whatever its size. Honest servers send far fewer. */
const MAX_CHUNKS_PER_SECOND = 10_000;

/** Responses with status 1xx (RFC 9110 section 15.2). Honest hosts send at most one. */
const MAX_INTERIM_RESPONSES = 8;

const WEBSOCKET_OPTIONS = {
  followRedirects: false,
  perMessageDeflate: false,
  /** A quote or a Nostr event is a few kB. */
  maxPayload: 256 * 1024,
  /** The longest message in fragments of 4 KiB. */
  maxFragments: 64,
  /**
   * Twice as many chunks as the longest message needs in the smallest IPv4 packets. A server could send very small
   * chunks. Assembling 100,000 of them would block the event loop for seconds.
   */
  maxBufferedChunks: 1_024,
  /** Handles one message per turn of the event loop. A chunk can contain ten thousand short messages. */
  allowSynchronousEvents: false,
  /** Node's default. Explicit, because the options of the process can change it. */
  maxHeaderSize: 16 * 1024,
  closeTimeout: 1_000,
  /** Explicit, because the environment can change the default (NODE_TLS_REJECT_UNAUTHORIZED). */
  rejectUnauthorized: true,
};

/** Opens a WebSocket. If the address is forbidden, the WebSocket emits `error` and `close`. */
export type WebSocketConnector = (url: string) => WebSocket;

/**
 * Creates a connector for WebSockets to untrusted hosts. Like {@link GuardedFetch}, it allows only wss to allowed
 * ports of public addresses, which are checked for each connection. It uses no redirects, no proxy from the
 * environment and no compression (a small message can unpack to a huge one), and limits messages, chunks and the
 * handshake.
 *
 * @param options.allowPrivateNetworks whether to allow ws, any port and private addresses, for development
 */
export function createGuardedWebSocketConnector(options: {
  allowPrivateNetworks: boolean;
  handshakeTimeoutMs?: number;
  resolve?: ResolveHostname;
}): WebSocketConnector {
  const lookup = createGuardedLookup(options.resolve ?? createDnsResolver());
  return (url) => {
    const socket = new WebSocket(url, {
      ...(!options.allowPrivateNetworks && { createConnection: guardConnection(url, lookup) }),
      ...WEBSOCKET_OPTIONS,
      // Some hosts reject requests without a user agent.
      headers: { 'User-Agent': 'nutpost' },
      finishRequest: sendHandshakeRequest,
    });
    // After a protocol error, `ws` would continue to read until the closing handshake.
    socket.once('error', () => socket.terminate());
    limitChunkRate(socket);
    limitHandshakeDuration(socket, options.handshakeTimeoutMs ?? HANDSHAKE_TIMEOUT_MS);
    return socket;
  };
}

/** With `createConnection`, `ws` uses no agent and therefore no proxy. */
function guardConnection(
  url: string,
  lookup: LookupFunction,
): ClientRequestArgs['createConnection'] {
  const target = new URL(url);
  const host = target.hostname.replace(/^\[|\]$/g, '');
  const isForbidden = target.protocol !== 'wss:' || !isAllowedPort(target) || isForbiddenHost(host);
  return ({ port }, callback) => {
    if (isForbidden) {
      callback(new RequestFailure('forbidden address'), new Socket());
      return undefined;
    }
    return connectTls({
      host,
      port: Number(port),
      lookup,
      rejectUnauthorized: WEBSOCKET_OPTIONS.rejectUnauthorized,
      ALPNProtocols: ['http/1.1'],
      ...(isIP(host) === 0 && { servername: host }),
    });
  };
}

/** A flood of interim responses would block the event loop, and with it the handshake timeout. */
function sendHandshakeRequest(request: ClientRequest): void {
  let interimResponses = 0;
  request.on('information', () => {
    interimResponses += 1;
    if (interimResponses > MAX_INTERIM_RESPONSES) {
      request.destroy(new Error('too many interim responses to the handshake'));
    }
  });
  request.end();
}

/** Terminates a connection that exceeds the limit, also during the closing handshake, when `ws` has no limits. */
function limitChunkRate(socket: WebSocket): void {
  let windowStartMs = -Infinity;
  let chunks = 0;
  const countChunk = () => {
    const now = performance.now();
    if (now - windowStartMs >= 1_000) {
      windowStartMs = now;
      chunks = 0;
    }
    chunks += 1;
    if (chunks > MAX_CHUNKS_PER_SECOND) {
      socket.terminate();
    }
  };
  // A listener that is added before `open` would consume the first chunk instead of `ws`.
  socket.once('upgrade', (response) => {
    socket.once('open', () => response.socket.on('data', countChunk));
  });
}

/** The timeout of `ws` would not suffice: it restarts with each byte, so a server could prolong the handshake. */
function limitHandshakeDuration(socket: WebSocket, timeoutMs: number): void {
  const deadline = setTimeoutAfterPendingIo(timeoutMs, () => {
    if (socket.readyState === socket.CONNECTING) {
      socket.terminate();
    }
  });
  socket.once('open', () => clearTimeout(deadline));
  socket.once('close', () => clearTimeout(deadline));
}

export function messageByteLength(message: RawData): number {
  return Array.isArray(message)
    ? message.reduce((bytes, { byteLength }) => bytes + byteLength, 0)
    : message.byteLength;
}

/** Calls back after a timeout. A message that arrived before it is handled first. */
export function setTimeoutAfterPendingIo(timeoutMs: number, callback: () => void): NodeJS.Timeout {
  // The message is read in this turn of the event loop and handled in the next one (`allowSynchronousEvents`).
  return setTimeout(() => setImmediate(() => setImmediate(callback)), timeoutMs).unref();
}
