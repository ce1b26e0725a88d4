import type { ClientRequest, ClientRequestArgs } from 'node:http';
import { isIP, type LookupFunction, Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { type RawData, WebSocket } from 'ws';
import { createGuardedLookup, type ResolveHostname } from './address-guard.ts';
import { createDnsResolver } from './dns-resolver.ts';
import { isAllowedPort, isForbiddenHost } from './public-address.ts';
import { UnreachableError } from './unreachable-reason.ts';

/** Includes name lookup and TLS. */
const HANDSHAKE_TIMEOUT_MS = 10_000;

/** Each TLS record is a chunk and costs about 15 µs, regardless of its size. Honest servers send far fewer. */
const MAX_CHUNKS_PER_SECOND = 10_000;

/** RFC 9110 section 15.2; hosts send none or one. */
const MAX_INTERIM_RESPONSES = 8;

const WEBSOCKET_OPTIONS = {
  followRedirects: false,
  perMessageDeflate: false,
  /** A quote or a Nostr event is a few kB. */
  maxPayload: 256 * 1024,
  /** The longest message in fragments of 4 KiB. */
  maxFragments: 64,
  /**
   * Twice as many chunks as the longest message needs in the smallest IPv4 packets. The server chooses the size of
   * its TLS records; assembling 100,000 chunks would block the event loop for seconds.
   */
  maxBufferedChunks: 1_024,
  /** Node's default, regardless of the options with which the process was started. */
  maxHeaderSize: 16 * 1024,
  closeTimeout: 1_000,
  /** Explicit, because the environment can change the default (NODE_TLS_REJECT_UNAUTHORIZED). */
  rejectUnauthorized: true,
};

/** Opens a WebSocket. A forbidden address causes `error` and `close` events. */
export type WebSocketConnector = (url: string) => WebSocket;

/**
 * Creates a connector for WebSockets to untrusted hosts, with the checks of {@link GuardedFetch}: only wss to
 * allowed ports of public addresses, checked for each connection; no redirects, no proxy from the environment, no
 * compression (a small message can unpack to a huge one), and limits on messages, chunks and the handshake.
 *
 * @param options.allowPrivateNetworks allows ws, any port and private addresses, for development
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
      callback(new UnreachableError('forbidden address'), new Socket());
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

/** Applies during the closing handshake too, when `ws` enforces no limits. */
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
  // An earlier listener would consume the first chunk before `ws` can read it.
  socket.once('upgrade', (response) => {
    socket.once('open', () => response.socket.on('data', countChunk));
  });
}

/** The timeout of `ws` restarts with each byte, so a server could prolong the handshake for ever. */
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

/** Calls back after a timeout, but only after reading the messages that arrived in time. */
export function setTimeoutAfterPendingIo(timeoutMs: number, callback: () => void): NodeJS.Timeout {
  return setTimeout(() => setImmediate(callback), timeoutMs).unref();
}
