import type { ClientRequest, ClientRequestArgs } from 'node:http';
import { isIP, Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { WebSocket } from 'ws';
import { isForbiddenHost } from '../domain/public-address.ts';
import { isPublicPort } from '../domain/public-port.ts';
import { forbiddenAddressError, guardedLookup, type ResolveAll } from './address-guard.ts';
import { nameResolver } from './resolve-names.ts';
import { lookAfter } from './socket-message.ts';

/** From the call to the open socket, name lookup and TLS included. */
const HANDSHAKE_TIMEOUT_MS = 10_000;

/** Who was told goodbye is given so long to hang up. */
const CLOSE_TIMEOUT_MS = 1_000;

/** One quote or one Nostr event is a few kB; nothing that we read comes near this. */
const MAX_MESSAGE_BYTES = 256 * 1024;

/** Of one message: the longest that is taken, from a server that sends parts of 4 KiB. */
const MAX_FRAGMENTS = 64;

/**
 * Pieces that the network may deliver one message in: twice what {@link MAX_MESSAGE_BYTES} take in the
 * smallest packets of IPv4. A server decides how small its TLS records are, and to put together a
 * message from a hundred thousand pieces takes the library seconds in which nothing else happens.
 */
const MAX_BUFFERED_CHUNKS = 1_024;

/**
 * Pieces that may come in a second, whatever they belong to: each TLS record is one, some 15 µs of work,
 * and a host decides how little is in it. No relay and no mint has as many things to say.
 */
const MAX_PIECES_A_SECOND = 10_000;

/** Before the answer to the handshake (RFC 9110 section 15.2): hosts send none or one. */
const MAX_INTERIM_ANSWERS = 8;

/** Of the answer to the handshake: Node's own default, whatever the process was started with. */
const MAX_HEADER_BYTES = 16 * 1024;

/** Some hosts turn away requests that name no program. */
const USER_AGENT = 'nutpost';

/** As options of `ws`, which by itself bounds the pongs that wait. */
const BOUNDS = {
  followRedirects: false,
  perMessageDeflate: false,
  maxPayload: MAX_MESSAGE_BYTES,
  maxFragments: MAX_FRAGMENTS,
  maxBufferedChunks: MAX_BUFFERED_CHUNKS,
  maxHeaderSize: MAX_HEADER_BYTES,
  closeTimeout: CLOSE_TIMEOUT_MS,
  // Where it is not said, the environment can turn the checks off (NODE_TLS_REJECT_UNAUTHORIZED).
  rejectUnauthorized: true,
};

/**
 * Opens a WebSocket. It fails like any other, by `error` and `close`, where the address is refused.
 *
 * @param url `wss:`, or `ws:` where private networks are open; without a fragment
 */
export type SocketConnector = (url: string) => WebSocket;

/**
 * WebSockets to hosts that strangers name, under the same guard as {@link GuardedFetch}: only wss to
 * public ports of public addresses, judged at each connection; no redirect, no proxy from the
 * environment, no compression (a small message could unpack to a huge one), a bound on messages, their
 * pieces and the handshake.
 *
 * @param options.allowPrivateNetworks opens ws, any port and private addresses, for development
 * @param options.resolve finds the addresses that are judged
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
      headers: { 'User-Agent': USER_AGENT },
      finishRequest: sendHandshake,
    });
    // Who broke the protocol is not read for another moment, as it would be until the goodbye is over.
    socket.once('error', () => socket.terminate());
    endHail(socket);
    endLateHandshake(socket, options.handshakeTimeoutMs ?? HANDSHAKE_TIMEOUT_MS);
    return socket;
  };
}

/** The connection of a guarded socket. An own `createConnection` also means: no agent, so no proxy. */
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
        done(forbiddenAddressError(), new Socket());
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

/** Each interim answer costs time, and not until the last one would the deadline be looked at. */
function sendHandshake(request: ClientRequest): void {
  let interimAnswers = 0;
  request.on('information', () => {
    interimAnswers += 1;
    if (interimAnswers > MAX_INTERIM_ANSWERS) {
      request.destroy(new Error('too many interim answers to the handshake'));
    }
  });
  request.end();
}

/** Also while a goodbye is waited for, when the library itself looks at nothing any more. */
function endHail(socket: WebSocket): void {
  let secondBeganAt = -Infinity;
  let pieces = 0;
  const countPiece = () => {
    const now = performance.now();
    if (now - secondBeganAt >= 1_000) {
      secondBeganAt = now;
      pieces = 0;
    }
    pieces += 1;
    if (pieces > MAX_PIECES_A_SECOND) {
      socket.terminate();
    }
  };
  // Not before it is open: the first piece would come here alone, and the library never see it.
  socket.once('upgrade', (answer) => {
    socket.once('open', () => answer.socket.on('data', countPiece));
  });
}

/** One deadline for all of it: a timeout of silence would let a server trickle bytes for ever. */
function endLateHandshake(socket: WebSocket, timeoutMs: number): void {
  const deadline = lookAfter(timeoutMs, () => {
    if (socket.readyState === socket.CONNECTING) {
      socket.terminate();
    }
  });
  socket.once('open', () => clearTimeout(deadline));
  socket.once('close', () => clearTimeout(deadline));
}
