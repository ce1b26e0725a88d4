import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { type Database, openDatabase } from '../../src/database/database.ts';
import { MetricsScrape } from '../helpers/service/metrics-scrape.ts';
import { NutpostProcess } from '../helpers/service/nutpost-process.ts';

export async function startMeasuredService(
  mintUrl: string,
  insertRows: (db: Database['db']) => Promise<void> = async () => undefined,
) {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'nutpost-load-'));
  onTestFinished(() => rm(dataDir, { recursive: true }));
  const database = await openDatabase({ kind: 'sqlite', dataDir }, () => undefined);
  await insertRows(database.db);
  await database.close();
  const service = new NutpostProcess('serve', {
    DATA_DIR: dataDir,
    DEFAULT_MINT_URL: mintUrl,
    METRICS_PORT: '0',
  });
  const origin = await service.waitForOrigin();
  const metricsUrl = /"metricsUrl":"([^"]+)"/.exec(service.stdout)?.[1] ?? '';
  const readUsage = async () => {
    const metrics = new MetricsScrape(await (await fetch(metricsUrl)).text());
    const read = (name: string) => metrics.sumSeries(name) ?? Number.NaN;
    return {
      memoryMb: read('process_resident_memory_bytes') / 2 ** 20,
      cpuSeconds: read('process_cpu_seconds_total'),
      /** Since the last scrape. */
      maxDelayMs: read('nodejs_eventloop_lag_max_seconds') * 1_000,
    };
  };
  return { origin, readUsage };
}
