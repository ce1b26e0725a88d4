import { createServer, type Socket } from 'node:net';
import { type LoopbackServer, listenOnLoopback } from './loopback-server.ts';

/** What a hostile mint does with a connection that sent a request. */
export type Hostility = (peer: Socket) => void;

/** A mint that describes itself correctly and is hostile to every other request. */
export interface HostileMint extends LoopbackServer {
  /** Requests that it was hostile to. */
  victims(): number;
  firstVictim: Promise<void>;
}

const INFO = JSON.stringify({
  nuts: { 4: { methods: [{ method: 'bolt11', unit: 'sat' }], disabled: false } },
});

/** What {@link flood} writes at a time. */
const FLOOD_BYTES = 64 * 1024;

/**
 * Starts a hostile mint. It writes bytes as they are, which need not be HTTP.
 *
 * @param options.isHostileAtOnce whether it is hostile to requests for its info, too
 */
export async function startHostileMint(
  beHostile: Hostility,
  options: { isHostileAtOnce?: boolean } = {},
): Promise<HostileMint> {
  const firstVictim = Promise.withResolvers<void>();
  let victims = 0;
  const server = createServer((peer) => {
    peer.on('data', (head) => {
      if (head.includes('GET /v1/info') && options.isHostileAtOnce !== true) {
        peer.end(`HTTP/1.1 200 OK\r\nContent-Length: ${INFO.length}\r\n\r\n${INFO}`);
      } else if (/^(GET|POST) /.test(head.toString('latin1', 0, 5))) {
        victims += 1;
        firstVictim.resolve();
        beHostile(peer);
      }
    });
  });
  const listening = await listenOnLoopback(server);
  return { ...listening, victims: () => victims, firstVictim: firstVictim.promise };
}

/** Writes the same again and again, as fast as the peer takes it, until it hangs up. */
export function flood(peer: Socket, bytes: string): void {
  const batch = bytes.repeat(Math.max(1, Math.floor(FLOOD_BYTES / bytes.length)));
  const pour = () => {
    if (peer.destroyed) {
      return;
    }
    if (peer.write(batch)) {
      setImmediate(pour);
    } else {
      peer.once('drain', pour);
    }
  };
  pour();
}

/** Writes one byte at a time with a pause between, until the peer hangs up. */
export function trickle(peer: Socket, bytes: string, pauseMs: number): void {
  let at = 0;
  const drip = setInterval(() => {
    peer.write(bytes.charAt(at % bytes.length));
    at += 1;
  }, pauseMs);
  peer.on('close', () => clearInterval(drip));
}
