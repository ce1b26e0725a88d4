import { setTimeout as delay } from 'node:timers/promises';
import type { BenchDatabase, DatabaseHost } from './harness/database.ts';
import type { BoundedRow, Effort, Figure } from './harness/figure.ts';
import { type ProcessUsage, processUsage } from './harness/process-usage.ts';
import { type BenchServer, startMint, startService } from './harness/servers.ts';
import { median, spreadOf } from './harness/statistics.ts';

/** What small machines have to spare, in megabytes. The embedded database is in the same process. */
const MAX_ON_SERVER_MB = 120;
const MAX_EMBEDDED_MB = 350;

/** By then a start is over, and what only it needed was given back (src/cli.ts). */
const SETTLED_MS = 5_000;

/**
 * Memory that the service holds (RSS) some seconds after a start with tables that are up to date, while
 * nobody asks it anything.
 */
export const idleMemory: Figure = {
  async measure(databases, effort) {
    await using mint = await startMint();
    return [
      await measureIdle('memory of the idle service', databases, mint, effort, {
        isEmbedded: false,
        atMost: MAX_ON_SERVER_MB,
      }),
      await measureIdle('the same, embedded', databases, mint, effort, {
        isEmbedded: true,
        atMost: MAX_EMBEDDED_MB,
      }),
    ];
  },
};

async function measureIdle(
  title: string,
  databases: DatabaseHost,
  mint: BenchServer,
  effort: Effort,
  { isEmbedded, atMost }: { isEmbedded: boolean; atMost: number },
): Promise<BoundedRow> {
  await using database = await (isEmbedded ? databases.createEmbedded() : databases.create());
  await database.prepare();
  // What is not measured: the one that leaves the modules compiled.
  await usageWhenIdle(mint, database, 0);
  const usages: ProcessUsage[] = [];
  for (let run = 0; run < effort.runs; run += 1) {
    usages.push(await usageWhenIdle(mint, database, SETTLED_MS));
  }
  const spread = spreadOf(usages.map(({ rssMb }) => rssMb));
  const peak = median(usages.map(({ peakRssMb }) => peakRssMb));
  return {
    title,
    ours: spread.median,
    spread,
    unit: 'MB',
    atMost,
    notes: [`${SETTLED_MS / 1000} s after each start; ${peak.toFixed(0)} MB during it`],
    problems: isEmbedded || 'DATABASE_URL' in database.env ? [] : ['there is no server'],
    run: { usages },
  };
}

/** Starts the service as `npm start` does, leaves it alone for a while, and ends it. */
async function usageWhenIdle(
  mint: BenchServer,
  database: BenchDatabase,
  settlingMs: number,
): Promise<ProcessUsage> {
  await using service = await startService(mint, database);
  await delay(settlingMs);
  const usage = await processUsage(service.process.pid);
  if (usage === null) {
    throw new Error('the service has ended, or this is no Linux');
  }
  return usage;
}
