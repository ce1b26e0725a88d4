import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';

/** A port of this machine on which nobody may ever arrive, by IPv4 or IPv6. */
export interface LoopbackTrap {
  port: number;
  /** Connections that arrived. */
  arrivals(): number;
  close(): Promise<void>;
}

/** Listens on one port of 127.0.0.1 and of ::1. Who arrives is counted, and hears nothing. */
export async function setLoopbackTrap(): Promise<LoopbackTrap> {
  let arrivals = 0;
  const peers = new Set<Socket>();
  const count = (peer: Socket) => {
    arrivals += 1;
    peers.add(peer);
    // Who was turned away may hang up as rudely as it likes.
    peer.on('error', () => undefined);
  };
  const listen = async (host: string, port: number): Promise<Server> => {
    const server = createServer(count).listen(port, host);
    await once(server, 'listening');
    return server;
  };
  const first = await listen('127.0.0.1', 0);
  const { port } = first.address() as AddressInfo;
  const servers = [first, await listen('::1', port)];
  return {
    port,
    arrivals: () => arrivals,
    close: async () => {
      for (const peer of peers) {
        peer.destroy();
      }
      await Promise.all(
        servers.map((server) => new Promise((resolve) => server.close(() => resolve(null)))),
      );
    },
  };
}
