import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';

/** What a hostile mint does to whoever asked: it may write, wait, hang up, or not. */
export type Hostility = (peer: Socket) => void;

/** A mint that says what it can do as a good one does, and is hostile to every other request. */
export interface HostileMint {
  url: string;
  /** Requests that it was hostile to. */
  victims(): number;
  /** Resolves once it is hostile to somebody. */
  firstVictim: Promise<void>;
  close(): Promise<void>;
}

const INFO = JSON.stringify({
  nuts: { 4: { methods: [{ method: 'bolt11', unit: 'sat' }], disabled: false } },
});

/** Written to its peer by {@link flood} at a time. */
const FLOOD_BYTES = 64 * 1024;

/** Starts a hostile mint; bytes are written as they are, so that they need not be HTTP. */
export async function startHostileMint(
  beHostile: Hostility,
  /** Whether it is hostile to those who ask what it can do, too. */
  options: { isHostileAtOnce?: boolean } = {},
): Promise<HostileMint> {
  const peers = new Set<Socket>();
  const firstVictim = Promise.withResolvers<void>();
  let victims = 0;
  const server = createServer((peer) => {
    peers.add(peer);
    peer.on('close', () => peers.delete(peer));
    // Its victims hang up on it.
    peer.on('error', () => undefined);
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
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    victims: () => victims,
    firstVictim: firstVictim.promise,
    close: async () => {
      for (const peer of peers) {
        peer.destroy();
      }
      await new Promise((resolve) => server.close(resolve));
    },
  };
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
