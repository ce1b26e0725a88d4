import { createDatabase } from '../harness/database.ts';
import type { Effort, Row } from '../harness/figure.ts';
import { startService, startTestMint } from '../harness/servers.ts';

const MAX_START_MS = 1_000;

/**
 * From the start of the process to its first response, with up-to-date tables and modules that an earlier
 * start has left compiled (bin/nutpost.js).
 */
export async function measureStart(serverUrl: string, effort: Effort): Promise<Row[]> {
  await using mint = await startTestMint();
  await using database = await createDatabase(serverUrl);
  const startOnce = async () => {
    const startedAtMs = performance.now();
    await using service = await startService(mint.ready.url, database);
    const response = await fetch(`${service.ready.url}/api/v2/info`);
    await response.text();
    if (!response.ok) {
      throw new Error(`the service returned status ${response.status}`);
    }
    return { nutpost: performance.now() - startedAtMs };
  };

  await startOnce();
  const runs = [];
  for (let run = 0; run < effort.runs; run += 1) {
    runs.push(await startOnce());
  }
  return [
    {
      title: 'start to first response',
      unit: 'ms',
      runs,
      bound: { atMost: MAX_START_MS },
      problems: [],
    },
  ];
}
