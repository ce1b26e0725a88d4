import { once } from 'node:events';
import { startCluster } from '../../scripts/postgres-cluster.ts';

/** The line of standard output. */
export type PostgresStart = { url: string; version: string } | { url: null; reason: string };

/**
 * Holds a private PostgreSQL server, durable as one in use is, so that it too ends with the
 * benchmark, whatever ends that.
 */

// A benchmark that was killed hears nothing any more; the server is stopped all the same.
process.stdout.on('error', () => undefined);
const ended = Promise.race([once(process, 'SIGTERM'), once(process, 'SIGINT')]);
try {
  const { url, version, stop } = await startCluster({ durable: true });
  say({ url, version });
  await ended;
  await stop();
} catch (error) {
  say({ url: null, reason: error instanceof Error ? error.message : String(error) });
}
// Where the benchmark has ended, it has let go of this first.
if (process.connected) {
  process.disconnect?.();
}

function say(start: PostgresStart): void {
  process.stdout.write(`${JSON.stringify(start)}\n`);
}
