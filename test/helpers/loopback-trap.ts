import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { createServer, type Socket } from 'node:net';
import { listenOnLoopback } from './loopback-server.ts';

/** A local port that must receive no connection. */
export interface LoopbackTrap {
  port: number;
  /** Number of received connections. */
  connectionCount(): number;
  close(): Promise<unknown>;
}

/** Listens on the same port of 127.0.0.1 and ::1, counts connections, and responds to none. */
export async function openLoopbackTrap(): Promise<LoopbackTrap> {
  let arrivals = 0;
  const count = () => {
    arrivals += 1;
  };
  const first = await listenOnLoopback(createServer(count));
  const { port } = first;
  const second = await listenOnLoopback(createServer(count), { host: '::1', port });
  return {
    port,
    connectionCount: () => arrivals,
    close: () => Promise.all([first.close(), second.close()]),
  };
}

export interface ConnectionAttempts {
  /** Addresses with ports, in the order of the attempts. */
  readonly targets: string[];
  stop(): void;
}

/** Records the addresses to which this process connects, as Node publishes each attempt. */
export function recordConnectionAttempts(): ConnectionAttempts {
  const targets: string[] = [];
  const watch = (message: unknown) => {
    const { socket } = message as { socket: Socket };
    socket.on('connectionAttempt', (address: string, port: number) => {
      targets.push(address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`);
    });
  };
  subscribe('net.client.socket', watch);
  return { targets, stop: () => unsubscribe('net.client.socket', watch) };
}
