import type { ClientRequestArgs } from 'node:http';
import { isIP, Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { WebSocket } from 'ws';
import { forbiddenAddressError, guardedLookup, isForbiddenLiteral } from './address-guard.ts';

/** From the call to the open socket, name lookup and TLS included. */
const HANDSHAKE_TIMEOUT_MS = 10_000;

/** One quote or one Nostr event is a few kB; nothing that we read comes near this. */
const MAX_MESSAGE_BYTES = 256 * 1024;

/** Some hosts turn away requests that name no program. */
const USER_AGENT = 'nutpost';

/**
 * Opens a WebSocket. It fails like any other, by `error` and `close`, where the address is refused.
 *
 * @param url `wss:`, or `ws:` where private networks are open; without a fragment
 */
export type SocketConnector = (url: string) => WebSocket;

/**
 * WebSockets to hosts that strangers name, under the same guard as {@link GuardedFetch}: only wss to
 * public addresses, judged at each connection; no redirect, no proxy from the environment, no
 * compression (a small message could unpack to a huge one), a bound on message size and handshake.
 *
 * @param options.allowPrivateNetworks opens ws and private addresses, for development
 */
export function guardedSocketConnector(options: {
  allowPrivateNetworks: boolean;
  handshakeTimeoutMs?: number;
}): SocketConnector {
  return (url) => {
    const socket = new WebSocket(url, {
      ...(!options.allowPrivateNetworks && guardedConnection(url)),
      followRedirects: false,
      perMessageDeflate: false,
      maxPayload: MAX_MESSAGE_BYTES,
      headers: { 'User-Agent': USER_AGENT },
    });
    endLateHandshake(socket, options.handshakeTimeoutMs ?? HANDSHAKE_TIMEOUT_MS);
    return socket;
  };
}

/** The connection of a guarded socket. An own `createConnection` also means: no agent, so no proxy. */
function guardedConnection(url: string): Pick<ClientRequestArgs, 'createConnection'> {
  const { protocol, hostname } = new URL(url);
  const host = hostname.replace(/^\[|\]$/g, '');
  const lookup = guardedLookup();
  return {
    createConnection: (target, done) => {
      if (protocol !== 'wss:' || isForbiddenLiteral(host)) {
        done(forbiddenAddressError(), new Socket());
        return undefined;
      }
      return connectTls({
        host,
        port: Number(target.port),
        lookup,
        ALPNProtocols: ['http/1.1'],
        ...(isIP(host) === 0 && { servername: host }),
      });
    },
  };
}

/** One deadline for all of it: a timeout of silence would let a server trickle bytes for ever. */
function endLateHandshake(socket: WebSocket, timeoutMs: number): void {
  const deadline = setTimeout(() => socket.terminate(), timeoutMs).unref();
  socket.once('open', () => clearTimeout(deadline));
  socket.once('close', () => clearTimeout(deadline));
}
