import {
  createDataDir,
  createPostgresDatabase,
  type ServiceDatabase,
} from '../harness/database.ts';
import type { Benchmark } from '../harness/figure.ts';
import { readProcessUsage } from '../harness/processes.ts';
import { startNutpost, startTestMint } from '../harness/servers.ts';

const MAX_START_MS = 1_000;
const MAX_PEAK_MB = 200;

/**
 * Measures how long the service takes to start: until its first response on a migrated database, and until it
 * listens with an empty data directory. The compile cache of bin/nutpost.js is already filled.
 */
export const measureStartup: Benchmark = async (serverUrl, options) => {
  await using mint = await startTestMint();
  await using database = await createPostgresDatabase(serverUrl);
  const measureStart = async (serviceDatabase: ServiceDatabase) => {
    const startedAtMs = performance.now();
    await using service = await startNutpost(mint.readyMessage.url, serviceDatabase);
    const listeningMs = performance.now() - startedAtMs;
    const response = await fetch(`${service.readyMessage.url}/api/v2/info`);
    await response.text();
    if (!response.ok) {
      throw new Error(`the service returned status ${response.status}`);
    }
    const respondedMs = performance.now() - startedAtMs;
    return { listeningMs, respondedMs, peakMb: (await readProcessUsage(service)).peakRssMb };
  };

  // Fills the compile cache.
  await measureStart(database);
  const starts = [];
  const firstStarts = [];
  for (let run = 0; run < options.runCount; run += 1) {
    starts.push(await measureStart(database));
    await using dataDir = await createDataDir();
    firstStarts.push(await measureStart(dataDir));
  }
  return [
    {
      title: 'start to first response',
      unit: 'ms',
      runs: starts.map(({ respondedMs }) => ({ service: respondedMs })),
      bound: { maxValue: MAX_START_MS },
    },
    {
      title: 'first start on SQLite, until it listens',
      unit: 'ms',
      runs: firstStarts.map(({ listeningMs }) => ({ service: listeningMs })),
      bound: { maxValue: MAX_START_MS },
    },
    {
      title: 'first start on SQLite: most memory',
      unit: 'MB',
      runs: firstStarts.map(({ peakMb }) => ({ service: peakMb })),
      bound: { maxValue: MAX_PEAK_MB },
    },
  ];
};
