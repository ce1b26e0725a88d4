import { once } from 'node:events';
import type { AddressInfo, Server, Socket } from 'node:net';

export interface LoopbackServer {
  port: number;
  /** Always has the scheme `http`, even if the server uses another protocol. */
  url: string;
  close(): Promise<void>;
}

export async function listenOnLoopback(
  server: Server,
  { host = '127.0.0.1', port = 0 } = {},
): Promise<LoopbackServer> {
  const connections = new Set<Socket>();
  server.on('connection', (connection: Socket) => {
    connections.add(connection);
    connection.on('error', () => undefined);
    connection.once('close', () => connections.delete(connection));
  });
  await once(server.listen(port, host), 'listening');
  const address = server.address() as AddressInfo;
  return {
    port: address.port,
    url: `http://${host}:${address.port}`,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      for (const connection of connections) {
        connection.destroy();
      }
      await closed;
    },
  };
}
