import { startCluster } from './postgres-cluster.ts';
import { runSuite } from './run-suite.ts';

/**
 * `npm run test:postgres`: the tests of stores and processes, and of the main ways, on a private PostgreSQL server
 * instead of the embedded one, and those that need a server (test/postgres).
 */

try {
  const cluster = await startCluster();
  try {
    console.log(`PostgreSQL ${cluster.version}`);
    process.exitCode = await runSuite(['integration', 'postgres'], {
      TEST_DATABASE_URL: cluster.url,
    });
  } finally {
    await cluster.stop();
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
