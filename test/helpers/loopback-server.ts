import { once } from 'node:events';
import type { AddressInfo, Server, Socket } from 'node:net';

export interface LoopbackServer {
  port: number;
  /** Has the scheme `http`, whatever the protocol. */
  url: string;
  /** Also destroys open connections. */
  close(): Promise<void>;
}

/** Listens on 127.0.0.1, by default on a free port. Connection errors are ignored, because clients reset connections. */
export async function listenOnLoopback(
  server: Server,
  { host = '127.0.0.1', port = 0 } = {},
): Promise<LoopbackServer> {
  const peers = new Set<Socket>();
  server.on('connection', (peer: Socket) => {
    peers.add(peer);
    peer.on('error', () => undefined);
    peer.once('close', () => peers.delete(peer));
  });
  await once(server.listen(port, host), 'listening');
  const address = server.address() as AddressInfo;
  return {
    port: address.port,
    url: `http://${host}:${address.port}`,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      for (const peer of peers) {
        peer.destroy();
      }
      await closed;
    },
  };
}
