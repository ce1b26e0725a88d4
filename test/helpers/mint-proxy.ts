import { createServer, request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { type LoopbackServer, listenOnLoopback } from './loopback-server.ts';

/**
 * Starts a proxy between the service and a real mint.
 *
 * @param target the mint, `http://host:port`
 * @param blocks which paths get 404 instead of the mint's answer
 * @param loses which paths are forwarded, but their answer is lost
 */
export async function startMintProxy(
  target: string,
  blocks: (path: string) => boolean,
  loses: (path: string) => boolean = () => false,
): Promise<LoopbackServer> {
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
      const headers = Object.entries(request.headers).map(([name, value]) => `${name}: ${value}`);
      const lines = [`${request.method} ${request.url} HTTP/1.1`, ...headers];
      mint.write(`${lines.join('\r\n')}\r\n\r\n`);
      mint.write(head);
      mint.pipe(socket).pipe(mint);
    });
    mint.on('error', () => socket.destroy());
    socket.on('close', () => mint.destroy());
  });
  return listenOnLoopback(server);
}
