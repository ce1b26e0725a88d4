import {
  createDataDir,
  createPostgresDatabase,
  type ServiceDatabase,
} from '../harness/database.ts';
import type { BenchmarkOptions, ResultRow } from '../harness/figure.ts';
import { readProcessUsage } from '../harness/processes.ts';
import { startNutpost, startTestMint } from '../harness/servers.ts';

const MAX_START_MS = 1_000;
const MAX_PEAK_MB = 200;

/**
 * Measures starts with a warm compile cache (bin/nutpost.js): the time until the first response on a migrated
 * database, and the time until the process listens with an empty data directory.
 */
export async function measureStartup(
  serverUrl: string,
  effort: BenchmarkOptions,
): Promise<ResultRow[]> {
  await using mint = await startTestMint();
  await using database = await createPostgresDatabase(serverUrl);
  const startOnce = async (used: ServiceDatabase) => {
    const startedAtMs = performance.now();
    await using service = await startNutpost(mint.readyMessage.url, used);
    const listeningMs = performance.now() - startedAtMs;
    const response = await fetch(`${service.readyMessage.url}/api/v2/info`);
    await response.text();
    if (!response.ok) {
      throw new Error(`the service returned status ${response.status}`);
    }
    const respondedMs = performance.now() - startedAtMs;
    return { listeningMs, respondedMs, peakMb: (await readProcessUsage(service)).peakRssMb };
  };

  await startOnce(database);
  const starts = [];
  const firstStarts = [];
  for (let run = 0; run < effort.runCount; run += 1) {
    starts.push(await startOnce(database));
    await using dataDir = await createDataDir();
    firstStarts.push(await startOnce(dataDir));
  }
  return [
    {
      title: 'start to first response',
      unit: 'ms',
      runs: starts.map(({ respondedMs }) => ({ service: respondedMs })),
      bound: { maxValue: MAX_START_MS },
      problems: [],
    },
    {
      title: 'first start on SQLite, until it listens',
      unit: 'ms',
      runs: firstStarts.map(({ listeningMs }) => ({ service: listeningMs })),
      bound: { maxValue: MAX_START_MS },
      problems: [],
    },
    {
      title: 'first start on SQLite: most memory',
      unit: 'MB',
      runs: firstStarts.map(({ peakMb }) => ({ service: peakMb })),
      bound: { maxValue: MAX_PEAK_MB },
      problems: [],
    },
  ];
}
