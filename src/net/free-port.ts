import { once } from 'node:events';
import { createServer } from 'node:net';

/** Whether a service could listen somewhere; else the system's code for why not, such as `EADDRINUSE`. */
export type Listenable = 'free' | (string & {});

/** Listens for a moment, to see whether that is possible. */
export async function tryToListen(host: string, port: number): Promise<Listenable> {
  const server = createServer();
  const outcome = once(server, 'listening').then(
    () => 'free',
    (error: NodeJS.ErrnoException) => error.code ?? 'unknown',
  );
  server.listen({ host, port });
  const listenable = await outcome;
  server.close();
  return listenable;
}
