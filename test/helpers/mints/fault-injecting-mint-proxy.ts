import { createServer, request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { type LoopbackServer, listenOnLoopback } from '../network/loopback-server.ts';

/** Stands between the service and a real mint. A dropped response is one to a request that the mint has received. */
export async function startFaultInjectingMintProxy(
  mintUrl: string,
  shouldBlock: (path: string) => boolean,
  shouldDropResponse: (path: string) => boolean = () => false,
): Promise<LoopbackServer> {
  const { hostname, port } = new URL(mintUrl);
  const server = createServer((request, response) => {
    const path = request.url ?? '/';
    if (shouldBlock(path)) {
      response.writeHead(404).end();
      return;
    }
    const mintRequest = httpRequest(
      { hostname, port, path, method: request.method, headers: request.headers },
      (mintResponse) => {
        if (request.method !== 'OPTIONS' && shouldDropResponse(path)) {
          mintResponse.resume().once('end', () => response.destroy());
          return;
        }
        response.writeHead(mintResponse.statusCode ?? 502, mintResponse.headers);
        mintResponse.pipe(response);
      },
    );
    mintRequest.on('error', () => response.destroy());
    request.pipe(mintRequest);
  });
  server.on('upgrade', (request, clientSocket, head) => {
    if (shouldBlock(request.url ?? '/')) {
      clientSocket.end('HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n');
      return;
    }
    const mintSocket = connect(Number(port), hostname, () => {
      const headers = Object.entries(request.headers).map(([name, value]) => `${name}: ${value}`);
      const lines = [`${request.method} ${request.url} HTTP/1.1`, ...headers];
      mintSocket.write(`${lines.join('\r\n')}\r\n\r\n`);
      mintSocket.write(head);
      mintSocket.pipe(clientSocket).pipe(mintSocket);
    });
    mintSocket.on('error', () => clientSocket.destroy());
    clientSocket.on('close', () => mintSocket.destroy());
  });
  return listenOnLoopback(server);
}
