import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { readProxyExample } from '../../scripts/reverse-proxy.ts';
import { findFreePort, ServerProcess } from '../../scripts/server-process.ts';
import { eventually } from '../helpers/eventually.ts';

/** Tests docs/proxies/haproxy-postgres.cfg with servers that only send their name. */

const HOST = '127.0.0.1';

it('leads to the primary, and closes the connections to a server that is no longer the primary', async () => {
  const nodes = [await startNode('postgres1'), await startNode('postgres2')] as const;
  nodes[0].isPrimary = true;
  const port = await startHaproxy(nodes);

  const connections = await Promise.all(Array.from({ length: 5 }, () => readServerName(port)));
  expect(connections.map(({ name }) => name)).toEqual(Array(5).fill('postgres1'));
  const closed = Promise.all(connections.map(({ socket }) => once(socket, 'close')));
  [nodes[0].isPrimary, nodes[1].isPrimary] = [false, true];
  await closed;

  await eventually(async () => expect((await readServerName(port)).name).toBe('postgres2'));
});

/** A server and the REST API of its Patroni. */
interface Node {
  name: string;
  port: number;
  apiPort: number;
  isPrimary: boolean;
}

async function startNode(name: string): Promise<Node> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.write(name);
  });
  const api = createHttpServer((request, response) => {
    const isRequestForPrimary = request.method === 'OPTIONS' && request.url === '/primary';
    response.writeHead(isRequestForPrimary && node.isPrimary ? 200 : 503).end();
  });
  const node = { name, port: await listen(server), apiPort: await listen(api), isPrimary: false };
  return node;
}

async function listen(server: Server): Promise<number> {
  server.listen(0, HOST);
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

/** Starts HAProxy, waits until it has found the primary, and returns its port. */
async function startHaproxy([one, other]: readonly [Node, Node]): Promise<number> {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-haproxy-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const port = await findFreePort(HOST);
  const config = await readProxyExample('haproxy-postgres.cfg', [
    ['bind 127.0.0.1:5000', `bind ${HOST}:${port}`],
    ['10.0.0.11:5432', `${HOST}:${one.port} port ${one.apiPort}`],
    ['10.0.0.12:5432', `${HOST}:${other.port} port ${other.apiPort}`],
  ]);
  const configFile = path.join(folder, 'haproxy.cfg');
  await writeFile(configFile, config);
  const haproxy = new ServerProcess('HAProxy', '/usr/sbin/haproxy', ['-db', '-f', configFile], {
    cwd: folder,
  });
  onTestFinished(() => haproxy.stop('SIGTERM'));
  // HAProxy treats all servers as available until their first checks have failed.
  await haproxy.waitUntilReady(async () => {
    const names = await Promise.all(Array.from({ length: 5 }, () => readServerName(port)));
    return names.every(({ name }) => name === one.name) || null;
  });
  return port;
}

/** Connects through HAProxy. The name is empty if HAProxy refuses or closes the connection. */
async function readServerName(port: number): Promise<{ name: string; socket: Socket }> {
  const socket = connect(port, HOST);
  socket.on('error', () => undefined);
  onTestFinished(() => void socket.destroy());
  const [data] = await Promise.race([once(socket, 'data'), once(socket, 'close')]).catch(() => []);
  return { name: Buffer.isBuffer(data) ? data.toString() : '', socket };
}
