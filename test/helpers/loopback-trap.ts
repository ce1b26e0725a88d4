import { createServer } from 'node:net';
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
