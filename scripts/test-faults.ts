import { randomInt } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { runPaymentStorm } from '../test/faults/payments/run.ts';
import { runPurchaseStorm } from '../test/faults/purchases/run.ts';
import type { DatabaseKind } from '../test/faults/site.ts';
import type { StormResult } from '../test/faults/storm.ts';

/**
 * `npm run test:faults`: two storms of faults, each on SQLite and on PostgreSQL, while the service's processes are killed
 * at random moments and mints fail during payments and name purchases. Afterwards nothing may be lost, and every payer
 * must have been served in time.
 */

const DATABASES: readonly DatabaseKind[] = ['sqlite', 'postgres'];

const STORMS = ['payments', 'purchases'] as const;

type StormName = (typeof STORMS)[number];

/** A storm keeps two cores busy. With fewer, storms that run at the same time starve each other. */
const CORES_PER_STORM = 2;

/** Problems printed for each failed check. */
const MAX_EXAMPLES = 10;

const USAGE = `Usage: npm run test:faults -- [--seed N] [--database ${DATABASES.join('|')}] [--storm ${STORMS.join('|')}]
       [--payments 200] [--kills 200]

  --seed N        repeat the random choices of an earlier run; every run prints its seed
  --database D    use one database only
  --storm S       run one storm only
  --payments N    number of payments in the payments storm
  --kills N       kills in the purchases storm, on both databases together
`;

const options = readOptions();
if (options === null) {
  process.stderr.write(USAGE);
  process.exitCode = 2;
} else {
  await testFaults(options);
}

interface Options {
  seed: string;
  payments: number;
  kills: number;
  databases: readonly DatabaseKind[];
  storms: readonly StormName[];
}

async function testFaults(options: Options): Promise<void> {
  console.log(`seed ${options.seed}`);
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => interrupted.abort(new Error(`interrupted by ${signal}`)));
  }
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-faults-'));
  const waiting = options.storms
    .flatMap((storm) => options.databases.map((database) => ({ storm, database })))
    .values();
  let passed = 0;
  let failed = 0;
  const runWaiting = async () => {
    for (const { storm, database } of waiting) {
      const result = await runOne(storm, database, options, folder, interrupted.signal);
      passed += result.passed;
      failed += result.failed;
      if (interrupted.signal.aborted) {
        return;
      }
    }
  };
  const atATime = Math.max(1, Math.floor(availableParallelism() / CORES_PER_STORM));
  await Promise.all(Array.from({ length: atATime }, runWaiting));
  if (failed === 0) {
    await rm(folder, { recursive: true, force: true });
  } else {
    console.log(
      `The logs and data of the processes are in ${folder}; the seed was ${options.seed}.`,
    );
    process.exitCode = 1;
  }
  console.log(`\n${passed} passed, ${failed} failed`);
}

/** Runs one storm and prints its result. @returns how many checks passed and failed */
async function runOne(
  storm: StormName,
  database: DatabaseKind,
  { seed, payments, kills }: Options,
  folder: string,
  signal: AbortSignal,
): Promise<{ passed: number; failed: number }> {
  const start = { payments: runPaymentStorm, purchases: runPurchaseStorm };
  const name = `${storm}, ${database}`;
  const say = (line: string) => console.log(`${name}: ${line}`);
  const startedAtMs = performance.now();
  const [run] = await Promise.allSettled([
    start[storm]({ database, seed, payments, kills, folder, signal, say }),
  ]);
  const seconds = Math.round((performance.now() - startedAtMs) / 1000);
  console.log(`\n=== ${name}, seed ${seed}, ${seconds} s ===\n`);
  if (run.status === 'rejected') {
    console.log(run.reason, '\n');
    return { passed: 0, failed: 1 };
  }
  report(run.value);
  console.log();
  const failed = run.value.verdicts.filter(({ problems }) => problems.length > 0).length;
  return { passed: run.value.verdicts.length - failed, failed };
}

/** Prints the counts and verdicts of a run. */
function report({ counts, verdicts }: StormResult): void {
  for (const [name, text] of Object.entries(counts)) {
    console.log(`${name.padEnd(24)}${text}`);
  }
  console.log();
  for (const { sentence, problems } of verdicts) {
    console.log(`${problems.length === 0 ? 'ok    ' : 'FAILED'}  ${sentence}`);
    for (const problem of problems.slice(0, MAX_EXAMPLES)) {
      console.log(`          ${problem}`);
    }
    if (problems.length > MAX_EXAMPLES) {
      console.log(`          and ${problems.length - MAX_EXAMPLES} more`);
    }
  }
}

/** Returns null if the arguments are invalid. */
function readOptions(): Options | null {
  try {
    const text = { type: 'string' } as const;
    const { values } = parseArgs({
      options: { seed: text, payments: text, kills: text, database: text, storm: text },
    });
    const { seed = String(randomInt(1_000_000_000)) } = values;
    const payments = Number(values.payments ?? 200);
    const kills = Number(values.kills ?? 200);
    const databases = DATABASES.filter((each) => each === (values.database ?? each));
    const storms = STORMS.filter((each) => each === (values.storm ?? each));
    const isValid =
      [payments, kills].every((count) => Number.isSafeInteger(count) && count > 0) &&
      databases.length > 0 &&
      storms.length > 0;
    return isValid ? { seed, payments, kills, databases, storms } : null;
  } catch {
    return null;
  }
}
