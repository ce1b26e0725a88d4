import { once } from 'node:events';
import { createServer, request as httpRequest } from 'node:http';
import { type AddressInfo, connect } from 'node:net';

/** Stands between the service and a real mint, and lets through only one way of asking. */
export interface MintProxy {
  url: string;
  close(): Promise<void>;
}

/**
 * Starts a proxy on 127.0.0.1.
 *
 * @param target the mint, `http://host:port`
 * @param blocks which paths get 404 instead of the mint's answer
 * @param loses which paths the mint does its work for, and nobody gets its answer
 */
export async function startMintProxy(
  target: string,
  blocks: (path: string) => boolean,
  loses: (path: string) => boolean = () => false,
): Promise<MintProxy> {
  const { hostname, port } = new URL(target);
  const server = createServer((request, response) => {
    const path = request.url ?? '/';
    if (blocks(path)) {
      response.writeHead(404).end();
      return;
    }
    const forwarded = httpRequest(
      { hostname, port, path, method: request.method, headers: request.headers },
      (answer) => {
        if (loses(path)) {
          answer.resume().once('end', () => response.destroy());
          return;
        }
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      },
    );
    forwarded.on('error', () => response.destroy());
    request.pipe(forwarded);
  });
  server.on('upgrade', (request, socket, head) => {
    if (blocks(request.url ?? '/')) {
      socket.end('HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n');
      return;
    }
    const mint = connect(Number(port), hostname, () => {
      const lines = [`${request.method} ${request.url} HTTP/1.1`];
      for (const [name, value] of Object.entries(request.headers)) {
        lines.push(`${name}: ${String(value)}`);
      }
      mint.write(`${lines.join('\r\n')}\r\n\r\n`);
      mint.write(head);
      mint.pipe(socket).pipe(mint);
    });
    mint.on('error', () => socket.destroy());
    socket.on('error', () => mint.destroy());
    socket.on('close', () => mint.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
