import { mkdir, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import path from 'node:path';
import { FIGURES } from './figures.ts';
import { compareTurns, failuresIn, type Turn } from './harness/against.ts';
import { type BenchArguments, readArguments } from './harness/arguments.ts';
import { DatabaseHost } from './harness/database.ts';
import { describeDisk } from './harness/disk.ts';
import { isReached } from './harness/figure.ts';
import { firstCause } from './harness/first-cause.ts';
import { measureFigure } from './harness/measure-figure.ts';
import { interrupt, wasInterrupted } from './harness/node-process.ts';
import { checkOut, describeCommit, OWN_TREE } from './harness/other-tree.ts';
import { readProfiles, renderProfile } from './harness/profile.ts';
import { renderComparison, renderHead, renderTable } from './harness/report.ts';
import { isReliable, whyUnmeasured } from './harness/verdict.ts';
import type { FigureResult } from './processes/figure.ts';

/**
 * `npm run bench`: measures what the service is for, each figure beside its floor, in the same run
 * on the same machine. Prints one table, and writes all that was measured to bench/results/.
 */

const USAGE = `Usage: npm run bench -- [options] [figure ...]

  --runs 3            of each side of a figure, in turn
  --seconds 3         of each run, after its warm-up
  --zaps 10000        paid at once (zaps)
  --quotes 10000000   in the table (deep-list)
  --against <commit>  the same figures on that commit too, in turn, and what has changed since
  --must-reach        exit with 1 where a figure is not as it has to be, or was named and is missing;
                      of 3 runs at least
  --profile           CPU profiles of the service, and which functions its time went to

One of the last three at a time.

Figures: ${Object.keys(FIGURES).join(', ')}. Default: all.
`;

const RESULTS = path.join(import.meta.dirname, 'results');

process.once('SIGINT', interrupt);
process.once('SIGTERM', interrupt);

const asked = readArguments(process.argv.slice(2), Object.keys(FIGURES));
if (asked === null) {
  process.stderr.write(USAGE);
  process.exitCode = 2;
} else {
  await bench(asked).catch((error: unknown) => {
    console.error(wasInterrupted() ? 'interrupted' : firstCause(error));
    process.exitCode = 1;
  });
}

async function bench(asked: BenchArguments): Promise<void> {
  const startedAt = new Date().toISOString();
  const file = path.join(RESULTS, `${startedAt.replaceAll(':', '')}.json`);
  await using databases = await DatabaseHost.start();
  const machine =
    `${cpus().length} x ${cpus()[0]?.model}, Node ${process.version}, ${databases.description}; ` +
    (await describeDisk());
  const { report, isGood, ...measured } =
    asked.against === null
      ? await measure(asked, databases, file)
      : await measureBoth(asked, asked.against, databases);
  const result = { startedAt, commit: await describeCommit(OWN_TREE), machine, ...measured };
  const { effort, profile } = asked;
  await mkdir(RESULTS, { recursive: true });
  await writeFile(file, JSON.stringify({ ...result, effort, profile }, null, 2));
  process.exitCode = isGood ? 0 : 1;
  const head = renderHead(machine, effort.runs);
  console.log(`\n${head}\n\n${report}\n\nEvery run is in ${file}`);
}

/** This tree alone. */
async function measure(asked: BenchArguments, databases: DatabaseHost, file: string) {
  const results: FigureResult[] = [];
  const failures: string[] = [];
  const profiles: string[] = [];
  for (const name of asked.figures) {
    console.log(`measuring ${name}`);
    const folder = asked.profile ? path.join(file.replace(/\.json$/, ''), name) : null;
    const plan = { name, effort: asked.effort, server: databases.server };
    const result = await measureFigure(OWN_TREE, plan, folder);
    stopIfInterrupted();
    const why = whyUnmeasured(result, asked.isNamed);
    if (why !== null) {
      failures.push(`${name}: ${why}`);
    }
    results.push(result);
    if (folder !== null) {
      profiles.push(`${name}: ${renderProfile(await readProfiles(folder))}\nSee ${folder}`);
    }
  }
  const rows = results.flatMap((result) => ('rows' in result ? result.rows : []));
  const isMeasured = results.every((result) => isReliable(result, asked.isNamed));
  return {
    rows,
    failures,
    report: [renderTable(rows), ...profiles, ...failures.map(asFailure)].join('\n\n'),
    isGood: isMeasured && !(asked.mustReach && rows.some((row) => isReached(row) === false)),
  };
}

/** This tree and another commit's, in turn, so that what the machine does meanwhile meets both. */
async function measureBoth(asked: BenchArguments, commit: string, databases: DatabaseHost) {
  await using other = await checkOut(OWN_TREE, commit);
  const turns: Turn[] = [];
  for (const name of asked.figures) {
    for (let run = 1; run <= asked.effort.runs; run += 1) {
      console.log(`measuring ${name}, here and there, ${run} of ${asked.effort.runs}`);
      const plan = { name, effort: { ...asked.effort, runs: 1 }, server: databases.server };
      const here = await measureFigure(OWN_TREE, plan);
      const there = await measureFigure(other.folder, plan);
      stopIfInterrupted();
      turns.push({ figure: name, here, there });
    }
  }
  const comparisons = compareTurns(turns);
  const failures = failuresIn(turns, asked.isNamed);
  const head = `there: ${other.commit}; here: ${await describeCommit(OWN_TREE)}`;
  return {
    against: other.commit,
    comparisons,
    failures,
    turns,
    report: [head, renderComparison(comparisons), ...failures.map(asFailure)].join('\n\n'),
    // That an older commit lacks what a figure needs is no failure of this one.
    isGood: turns.every(({ here }) => isReliable(here, asked.isNamed)),
  };
}

function asFailure(text: string): string {
  return `NOT MEASURED: ${text}`;
}

/** Whatever a figure said then, it said because it was ended. */
function stopIfInterrupted(): void {
  if (wasInterrupted()) {
    throw new Error('interrupted');
  }
}
