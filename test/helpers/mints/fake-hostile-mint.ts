import { createServer, type Socket } from 'node:net';
import { type LoopbackServer, listenOnLoopback } from '../network/loopback-server.ts';

/** Writes a response, which need not be valid HTTP, to the connection of a request. */
export type HostileResponder = (connection: Socket) => void;

export interface HostileMint extends LoopbackServer {
  firstHostileResponse: Promise<void>;
}

const MINT_INFO = JSON.stringify({
  nuts: { 4: { methods: [{ method: 'bolt11', unit: 'sat' }], disabled: false } },
});

const FLOOD_WRITE_BYTES = 64 * 1024;

/** Requests for the info get a valid response by default, so that the service tries to use the mint. */
export async function startHostileMint(
  respond: HostileResponder,
  options: { hasHostileInfo?: boolean } = {},
): Promise<HostileMint> {
  const firstResponse = Promise.withResolvers<void>();
  const server = createServer((connection) => {
    connection.on('data', (data) => {
      if (data.includes('GET /v1/info') && options.hasHostileInfo !== true) {
        connection.end(
          `HTTP/1.1 200 OK\r\nContent-Length: ${MINT_INFO.length}\r\n\r\n${MINT_INFO}`,
        );
      } else if (/^(GET|POST) /.test(data.toString('latin1', 0, 5))) {
        firstResponse.resolve();
        respond(connection);
      }
    });
  });
  const loopbackServer = await listenOnLoopback(server);
  return {
    ...loopbackServer,
    firstHostileResponse: firstResponse.promise,
  };
}

/** Writes the bytes repeatedly, as fast as the client reads them, until the client disconnects. */
export function flood(connection: Socket, bytes: string | Buffer): void {
  const times = Math.max(1, Math.floor(FLOOD_WRITE_BYTES / bytes.length));
  const repeatedBytes = Buffer.concat(Array(times).fill(Buffer.from(bytes)));
  const writeMore = () => {
    if (connection.destroyed) {
      return;
    }
    if (connection.write(repeatedBytes)) {
      setImmediate(writeMore);
    } else {
      connection.once('drain', writeMore);
    }
  };
  writeMore();
}

/** Writes the text repeatedly, one character at each interval, until the client disconnects. */
export function trickle(connection: Socket, text: string, intervalMs: number): void {
  let position = 0;
  const timer = setInterval(() => {
    connection.write(text.charAt(position % text.length));
    position += 1;
  }, intervalMs);
  connection.on('close', () => clearInterval(timer));
}
