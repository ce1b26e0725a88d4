import { startCluster } from './postgres-cluster.ts';
import { runSuite } from './run-suite.ts';

/**
 * `npm run test:operations`: what an operator does and reads (test/operations): the container's steps, the
 * commands of the documents, alert rules, stops under load, and moves from one database to another, with a
 * private PostgreSQL server beside the embedded database.
 */

/** How long a stop, a takeover and a move take is measured: no second file may run meanwhile. */
const FILES_AT_ONCE = '1';

try {
  const cluster = await startCluster();
  try {
    process.exitCode = await runSuite(['operations'], {
      OPERATIONS_DATABASE_URL: cluster.url,
      VITEST_MAX_WORKERS: FILES_AT_ONCE,
    });
  } finally {
    await cluster.stop();
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
