import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { createServer, type Socket } from 'node:net';
import { listenOnLoopback } from './loopback-server.ts';

export interface LoopbackConnectionCounter {
  port: number;
  connectionCount(): number;
  close(): Promise<unknown>;
}

export async function startLoopbackConnectionCounter(): Promise<LoopbackConnectionCounter> {
  let connectionCount = 0;
  const countConnection = () => {
    connectionCount += 1;
  };
  const ipv4Server = await listenOnLoopback(createServer(countConnection));
  const { port } = ipv4Server;
  const ipv6Server = await listenOnLoopback(createServer(countConnection), { host: '::1', port });
  return {
    port,
    connectionCount: () => connectionCount,
    close: () => Promise.all([ipv4Server.close(), ipv6Server.close()]),
  };
}

export interface ConnectionAttempts {
  /** The address and port of each attempt, such as `127.0.0.1:80` or `[::1]:80`, oldest first. */
  readonly targets: string[];
  stop(): void;
}

export function recordConnectionAttempts(): ConnectionAttempts {
  const targets: string[] = [];
  const recordAttempts = (message: unknown) => {
    const { socket } = message as { socket: Socket };
    socket.on('connectionAttempt', (address: string, port: number) => {
      targets.push(address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`);
    });
  };
  // Node publishes each new client socket on this diagnostics channel.
  subscribe('net.client.socket', recordAttempts);
  return { targets, stop: () => unsubscribe('net.client.socket', recordAttempts) };
}
