import { setTimeout as delay } from 'node:timers/promises';
import { createDatabase, createDataDir } from '../harness/database.ts';
import type { Effort, Row } from '../harness/figure.ts';
import { usageOf } from '../harness/processes.ts';
import { startService, startTestMint } from '../harness/servers.ts';

const MAX_MB = 130;

/** A start and what follows it at once is over by then. */
const SETTLING_MS = 5_000;

/** Resident memory of a service that receives no requests, some seconds after its start. */
export async function measureIdleMemory(serverUrl: string, effort: Effort): Promise<Row[]> {
  await using mint = await startTestMint();
  await using database = await createDatabase(serverUrl);
  await using dataDir = await createDataDir();
  const rows: Row[] = [];
  for (const [name, used] of Object.entries({ PostgreSQL: database, SQLite: dataDir })) {
    const runs = [];
    for (let run = 0; run < effort.runs; run += 1) {
      await using service = await startService(mint.ready.url, used);
      await delay(SETTLING_MS);
      runs.push({ nutpost: (await usageOf(service)).rssMb });
    }
    rows.push({
      title: `memory of the idle service on ${name}`,
      unit: 'MB',
      runs,
      bound: { atMost: MAX_MB },
      problems: [],
    });
  }
  return rows;
}
