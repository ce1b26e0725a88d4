import { createServer, request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { type LoopbackServer, listenOnLoopback } from './loopback-server.ts';

/**
 * Starts a proxy between the service and a real mint.
 *
 * @param target the mint, `http://host:port`
 * @param shouldBlock selects paths that get a 404 instead of the mint's response
 * @param shouldDropResponse selects paths whose request is forwarded and whose response is lost
 */
export async function startMintProxy(
  target: string,
  shouldBlock: (path: string) => boolean,
  shouldDropResponse: (path: string) => boolean = () => false,
): Promise<LoopbackServer> {
  const { hostname, port } = new URL(target);
  const server = createServer((request, response) => {
    const path = request.url ?? '/';
    if (shouldBlock(path)) {
      response.writeHead(404).end();
      return;
    }
    const forwarded = httpRequest(
      { hostname, port, path, method: request.method, headers: request.headers },
      (upstreamResponse) => {
        if (shouldDropResponse(path)) {
          upstreamResponse.resume().once('end', () => response.destroy());
          return;
        }
        response.writeHead(upstreamResponse.statusCode ?? 502, upstreamResponse.headers);
        upstreamResponse.pipe(response);
      },
    );
    forwarded.on('error', () => response.destroy());
    request.pipe(forwarded);
  });
  server.on('upgrade', (request, socket, head) => {
    if (shouldBlock(request.url ?? '/')) {
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
