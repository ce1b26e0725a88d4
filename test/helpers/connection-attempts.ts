import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';

/** Every connection that this process tries to make while it is recorded. */
export interface ConnectionAttempts {
  /** Addresses with their ports, in the order of the attempts. */
  readonly targets: string[];
  stop(): void;
}

/** Records to which addresses connections are tried, whoever tries: Node tells before it dials. */
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
