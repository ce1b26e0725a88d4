import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { createServer, type Socket } from 'node:net';
import { listenOnLoopback } from './loopback-server.ts';

/** A port of this machine on which no connection may arrive. */
export interface LoopbackTrap {
  port: number;
  /** Connections that arrived. */
  arrivals(): number;
  close(): Promise<unknown>;
}

/** Listens on the same port of 127.0.0.1 and ::1, counts connections, and answers none. */
export async function setLoopbackTrap(): Promise<LoopbackTrap> {
  let arrivals = 0;
  const count = () => {
    arrivals += 1;
  };
  const first = await listenOnLoopback(createServer(count));
  const { port } = first;
  const second = await listenOnLoopback(createServer(count), { host: '::1', port });
  return {
    port,
    arrivals: () => arrivals,
    close: () => Promise.all([first.close(), second.close()]),
  };
}

export interface ConnectionAttempts {
  /** Addresses with their ports, in the order of the attempts. */
  readonly targets: string[];
  stop(): void;
}

/** Records the addresses to which any code of this process connects; Node publishes each attempt. */
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
