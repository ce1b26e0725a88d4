import { createDatabase, createDataDir, type ServiceDatabase } from '../harness/database.ts';
import type { Effort, Row } from '../harness/figure.ts';
import { usageOf } from '../harness/processes.ts';
import { startService, startTestMint } from '../harness/servers.ts';

const MAX_START_MS = 1_000;
const MAX_PEAK_MB = 200;

/**
 * The start of the process with modules that an earlier start has left compiled (bin/nutpost.js): to the first response
 * with up-to-date tables, and to the line that says that it listens in an empty data directory.
 */
export async function measureStart(serverUrl: string, effort: Effort): Promise<Row[]> {
  await using mint = await startTestMint();
  await using database = await createDatabase(serverUrl);
  const startOnce = async (used: ServiceDatabase) => {
    const startedAtMs = performance.now();
    await using service = await startService(mint.ready.url, used);
    const listeningMs = performance.now() - startedAtMs;
    const response = await fetch(`${service.ready.url}/api/v2/info`);
    await response.text();
    if (!response.ok) {
      throw new Error(`the service returned status ${response.status}`);
    }
    const respondedMs = performance.now() - startedAtMs;
    return { listeningMs, respondedMs, peakMb: (await usageOf(service)).peakRssMb };
  };

  await startOnce(database);
  const starts = [];
  const firstStarts = [];
  for (let run = 0; run < effort.runs; run += 1) {
    starts.push(await startOnce(database));
    await using dataDir = await createDataDir();
    firstStarts.push(await startOnce(dataDir));
  }
  return [
    {
      title: 'start to first response',
      unit: 'ms',
      runs: starts.map(({ respondedMs }) => ({ nutpost: respondedMs })),
      bound: { atMost: MAX_START_MS },
      problems: [],
    },
    {
      title: 'first start on SQLite, until it listens',
      unit: 'ms',
      runs: firstStarts.map(({ listeningMs }) => ({ nutpost: listeningMs })),
      bound: { atMost: MAX_START_MS },
      problems: [],
    },
    {
      title: 'first start on SQLite: most memory',
      unit: 'MB',
      runs: firstStarts.map(({ peakMb }) => ({ nutpost: peakMb })),
      bound: { atMost: MAX_PEAK_MB },
      problems: [],
    },
  ];
}
