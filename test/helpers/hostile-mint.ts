import { createServer, type Socket } from 'node:net';
import { type LoopbackServer, listenOnLoopback } from './loopback-server.ts';

/** Handles a connection that sent a request. */
export type HostileBehavior = (peer: Socket) => void;

/** A mint that serves a correct info and attacks every other request. */
export interface HostileMint extends LoopbackServer {
  /** Number of requests that were attacked. */
  attackedRequestCount(): number;
  firstAttackedRequest: Promise<void>;
}

const INFO = JSON.stringify({
  nuts: { 4: { methods: [{ method: 'bolt11', unit: 'sat' }], disabled: false } },
});

/** Size of each write by {@link flood}. */
const FLOOD_BYTES = 64 * 1024;

/**
 * Starts a hostile mint. It writes raw bytes, which need not be HTTP.
 *
 * @param options.shouldAttackInfoRequests whether to attack requests for its info, too
 */
export async function startHostileMint(
  attack: HostileBehavior,
  options: { shouldAttackInfoRequests?: boolean } = {},
): Promise<HostileMint> {
  const firstVictim = Promise.withResolvers<void>();
  let victims = 0;
  const server = createServer((peer) => {
    peer.on('data', (head) => {
      if (head.includes('GET /v1/info') && options.shouldAttackInfoRequests !== true) {
        peer.end(`HTTP/1.1 200 OK\r\nContent-Length: ${INFO.length}\r\n\r\n${INFO}`);
      } else if (/^(GET|POST) /.test(head.toString('latin1', 0, 5))) {
        victims += 1;
        firstVictim.resolve();
        attack(peer);
      }
    });
  });
  const listening = await listenOnLoopback(server);
  return {
    ...listening,
    attackedRequestCount: () => victims,
    firstAttackedRequest: firstVictim.promise,
  };
}

/** Writes the same bytes repeatedly, as fast as the peer reads, until the peer disconnects. */
export function flood(peer: Socket, bytes: string): void {
  const batch = bytes.repeat(Math.max(1, Math.floor(FLOOD_BYTES / bytes.length)));
  const writeMore = () => {
    if (peer.destroyed) {
      return;
    }
    if (peer.write(batch)) {
      setImmediate(writeMore);
    } else {
      peer.once('drain', writeMore);
    }
  };
  writeMore();
}

/** Writes one byte at a time with pauses, until the peer disconnects. */
export function trickle(peer: Socket, bytes: string, pauseMs: number): void {
  let at = 0;
  const timer = setInterval(() => {
    peer.write(bytes.charAt(at % bytes.length));
    at += 1;
  }, pauseMs);
  peer.on('close', () => clearInterval(timer));
}
