import { setTimeout as delay } from 'node:timers/promises';
import { createDataDir, createPostgresDatabase } from '../harness/database.ts';
import type { Benchmark, ResultRow } from '../harness/figure.ts';
import { readProcessUsage } from '../harness/processes.ts';
import { startNutpost, startTestMint } from '../harness/servers.ts';

const MAX_MB = 130;

/** How long to wait after the start, until the service has finished the work right after it. */
const STABILIZATION_MS = 5_000;

/** Measures the resident memory of a service without requests, some seconds after its start. */
export const measureIdleMemory: Benchmark = async (serverUrl, options) => {
  await using mint = await startTestMint();
  await using database = await createPostgresDatabase(serverUrl);
  await using dataDir = await createDataDir();
  const rows: ResultRow[] = [];
  for (const [name, serviceDatabase] of Object.entries({ PostgreSQL: database, SQLite: dataDir })) {
    const runs = [];
    for (let run = 0; run < options.runCount; run += 1) {
      await using service = await startNutpost(mint.readyMessage.url, serviceDatabase);
      await delay(STABILIZATION_MS);
      runs.push({ service: (await readProcessUsage(service)).rssMb });
    }
    rows.push({
      title: `memory of the idle service on ${name}`,
      unit: 'MB',
      runs,
      bound: { maxValue: MAX_MB },
    });
  }
  return rows;
};
