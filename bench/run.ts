import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import path from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { discovery } from './discovery.ts';
import { DatabaseHost } from './harness/database.ts';
import type { Effort, Figure, Row } from './harness/figure.ts';
import { interrupt, wasInterrupted } from './harness/node-process.ts';
import { renderTable } from './harness/report.ts';
import { invoice } from './invoice.ts';
import { paymentToUpdate } from './payment-to-update.ts';
import { quoteList } from './quote-list.ts';
import { start } from './start.ts';
import { watcher } from './watcher.ts';
import { zaps } from './zaps.ts';

/**
 * `npm run bench`: measures what the service is for, each figure beside its floor, in the same run
 * on the same machine. Prints one table, and writes all that was measured to bench/results/.
 */

const FIGURES: readonly Figure[] = [
  start,
  discovery,
  invoice,
  quoteList,
  paymentToUpdate,
  watcher,
  zaps,
];

const USAGE = `Usage: npm run bench -- [--runs 3] [--seconds 3] [--zaps 10000] [figure ...]

Figures: ${FIGURES.map(({ name }) => name).join(', ')}. Default: all.
`;

const RESULTS = path.join(import.meta.dirname, 'results');

process.once('SIGINT', interrupt);
process.once('SIGTERM', interrupt);

const chosen = readArguments();
if (chosen === null) {
  process.stderr.write(USAGE);
  process.exitCode = 2;
} else {
  await measure(chosen.figures, chosen.effort).catch((error: unknown) => {
    console.error(wasInterrupted() ? 'interrupted' : error);
    process.exitCode = 1;
  });
}

async function measure(figures: readonly Figure[], effort: Effort): Promise<void> {
  const startedAt = new Date().toISOString();
  const rows: Row[] = [];
  await using databases = await DatabaseHost.start();
  const machine = `${cpus().length} x ${cpus()[0]?.model}, Node ${process.version}, ${databases.description}`;
  for (const figure of figures) {
    console.log(`measuring ${figure.name}`);
    rows.push(...(await figure.measure(databases, effort)));
  }
  const result = { startedAt, commit: await describeCommit(), machine, effort, rows };
  const file = path.join(RESULTS, `${startedAt.replaceAll(':', '')}.json`);
  process.exitCode = rows.some(({ problems }) => problems.length > 0) ? 1 : 0;
  await mkdir(RESULTS, { recursive: true });
  await writeFile(file, JSON.stringify(result, null, 2));
  console.log(`\n${machine}\n\n${renderTable(rows)}\n\nEvery run is in ${file}`);
}

/** Null where they are not understood. */
function readArguments(): { figures: Figure[]; effort: Effort } | null {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        runs: { type: 'string', default: '3' },
        seconds: { type: 'string', default: '3' },
        zaps: { type: 'string', default: '10000' },
      },
    });
    const isKnown = positionals.every((name) => FIGURES.some((figure) => figure.name === name));
    const effort = {
      runs: Number(values.runs),
      seconds: Number(values.seconds),
      zaps: Number(values.zaps),
    };
    const figures = FIGURES.filter(
      ({ name }) => positionals.length === 0 || positionals.includes(name),
    );
    const isEnough = Object.values(effort).every((amount) => amount >= 1);
    return isKnown && isEnough ? { figures, effort } : null;
  } catch {
    return null;
  }
}

/** The commit that was measured, with `-dirty` where files differ from it; null outside of git. */
async function describeCommit(): Promise<string | null> {
  const git = promisify(execFile)('git', ['describe', '--always', '--dirty']);
  return git.then(
    ({ stdout }) => stdout.trim(),
    () => null,
  );
}
