import type { BenchDatabase, DatabaseHost } from './harness/database.ts';
import type { BoundedRow, Effort, Figure } from './harness/figure.ts';
import { type BenchServer, startMint, startService } from './harness/servers.ts';
import { median, spreadOf } from './harness/statistics.ts';

/** What a restart may keep wallets and payers waiting. An embedded database has to be started, too. */
const MAX_ON_SERVER_MS = 1_000;
const MAX_EMBEDDED_MS = 4_000;

/** Whatever is asked first: this says no more than that it serves. */
const QUESTION = '/api/v2/info';

/** One start. */
interface Start {
  firstAnswerMs: number;
  /** Of the service, of all threads, until then: it says more where others use the machine too. */
  cpuMs: number;
}

/**
 * From the start of the process to its first answer, with a schema that is up to date. Whoever started it
 * before left the modules compiled (bin/nutpost.js); the first start ever has to do that itself.
 */
export const start: Figure = {
  async measure(databases, effort) {
    await using mint = await startMint();
    return [
      await measureStarts('start to first answer, on a server', databases, mint, effort, {
        atMost: MAX_ON_SERVER_MS,
      }),
      await measureStarts('the same, nothing compiled yet', databases, mint, effort, {
        env: { NODE_DISABLE_COMPILE_CACHE: '1' },
      }),
      await measureStarts('start to first answer, embedded', databases, mint, effort, {
        atMost: MAX_EMBEDDED_MS,
        isEmbedded: true,
      }),
    ];
  },
};

async function measureStarts(
  title: string,
  databases: DatabaseHost,
  mint: BenchServer,
  effort: Effort,
  given: { atMost?: number; env?: Record<string, string>; isEmbedded?: boolean },
): Promise<BoundedRow> {
  await using database = await (given.isEmbedded ? databases.createEmbedded() : databases.create());
  await database.prepare();
  // What is not measured: the one that leaves the modules compiled.
  await startOnce(mint, database, given.env);
  const starts: Start[] = [];
  for (let run = 0; run < effort.runs; run += 1) {
    starts.push(await startOnce(mint, database, given.env));
  }
  const spread = spreadOf(starts.map(({ firstAnswerMs }) => firstAnswerMs));
  const cpuMs = median(starts.map((each) => each.cpuMs));
  return {
    title,
    ours: spread.median,
    spread,
    unit: 'ms',
    atMost: given.atMost ?? null,
    notes: [`CPU of the service until then: ${cpuMs.toFixed(0)} ms`],
    problems: given.isEmbedded || 'DATABASE_URL' in database.env ? [] : ['there is no server'],
    run: { starts },
  };
}

/** Starts the service as `npm start` does, asks it something, and ends it. */
async function startOnce(
  mint: BenchServer,
  database: BenchDatabase,
  env: Record<string, string> = {},
): Promise<Start> {
  const startedAtMs = performance.now();
  await using service = await startService(mint, database, env);
  const answer = await fetch(`${service.url}${QUESTION}`);
  await answer.text();
  const firstAnswerMs = performance.now() - startedAtMs;
  if (!answer.ok) {
    throw new Error(`the service answered with ${answer.status}`);
  }
  return { firstAnswerMs, cpuMs: await service.process.cpuMs() };
}
