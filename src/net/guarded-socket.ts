import type { ClientRequestArgs } from 'node:http';
import { isIP, Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { WebSocket } from 'ws';
import { isForbiddenHost } from '../domain/public-address.ts';
import { isPublicPort } from '../domain/public-port.ts';
import { forbiddenAddressError, guardedLookup, type ResolveAll } from './address-guard.ts';
import { nameResolver } from './resolve-names.ts';

/** From the call to the open socket, name lookup and TLS included. */
const HANDSHAKE_TIMEOUT_MS = 10_000;

/** Who has broken the protocol, or was told goodbye, is given so long to hang up. */
const CLOSE_TIMEOUT_MS = 1_000;

/** One quote or one Nostr event is a few kB; nothing that we read comes near this. */
const MAX_MESSAGE_BYTES = 256 * 1024;

/** Of the answer to the handshake: Node's own default, whatever the process was started with. */
const MAX_HEADER_BYTES = 16 * 1024;

/** Some hosts turn away requests that name no program. */
const USER_AGENT = 'nutpost';

/** As options of `ws`, which bounds a message's parts and the pongs that wait by itself. */
const BOUNDS = {
  followRedirects: false,
  perMessageDeflate: false,
  maxPayload: MAX_MESSAGE_BYTES,
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
 * environment, no compression (a small message could unpack to a huge one), a bound on message size
 * and handshake.
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
    });
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

/** One deadline for all of it: a timeout of silence would let a server trickle bytes for ever. */
function endLateHandshake(socket: WebSocket, timeoutMs: number): void {
  const deadline = setTimeout(() => socket.terminate(), timeoutMs).unref();
  socket.once('open', () => clearTimeout(deadline));
  socket.once('close', () => clearTimeout(deadline));
}
