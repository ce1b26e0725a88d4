import { randomInt } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import type { DatabaseKind } from '../test/faults/deployment.ts';
import { runPaymentStorm } from '../test/faults/payments/payment-storm.ts';
import { runPurchaseStorm } from '../test/faults/purchases/purchase-storm.ts';
import type { StormResult } from '../test/faults/storm.ts';

/**
 * `npm run test:faults`: runs two storms, each on SQLite and PostgreSQL. The service's processes are killed at random
 * times, and mints fail during payments and username purchases. No payment may be lost, and every payer must get an
 * invoice in time.
 */

const DATABASES: readonly DatabaseKind[] = ['sqlite', 'postgres'];

const STORMS = ['payments', 'purchases'] as const;

type StormName = (typeof STORMS)[number];

/** A storm keeps two cores busy. With fewer cores, concurrent storms would starve each other. */
const CORES_PER_STORM = 2;

const MAX_PROBLEMS_SHOWN = 10;

const USAGE = `Usage: npm run test:faults -- [--seed N] [--database ${DATABASES.join('|')}] [--storm ${STORMS.join('|')}]
       [--payments 200] [--kills 200]

  --seed N        repeat the random choices of an earlier run; every run prints its seed
  --database D    use one database only
  --storm S       run one storm only
  --payments N    number of payments in the payments storm
  --kills N       number of kills in the purchases storm, on both databases together
`;

const options = readOptions();
if (options === null) {
  process.stderr.write(USAGE);
  process.exitCode = 2;
} else {
  await runFaultTests(options);
}

interface FaultTestOptions {
  seed: string;
  payments: number;
  kills: number;
  databases: readonly DatabaseKind[];
  storms: readonly StormName[];
}

async function runFaultTests(options: FaultTestOptions): Promise<void> {
  console.log(`seed ${options.seed}`);
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => interrupted.abort(new Error(`interrupted by ${signal}`)));
  }
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-faults-'));
  const queue = options.storms
    .flatMap((storm) => options.databases.map((database) => ({ storm, database })))
    .values();
  let passed = 0;
  let failed = 0;
  const runWaiting = async () => {
    for (const { storm, database } of queue) {
      const result = await runStorm(storm, database, options, folder, interrupted.signal);
      passed += result.passed;
      failed += result.failed;
      if (interrupted.signal.aborted) {
        return;
      }
    }
  };
  const concurrency = Math.max(1, Math.floor(availableParallelism() / CORES_PER_STORM));
  await Promise.all(Array.from({ length: concurrency }, runWaiting));
  if (failed === 0) {
    await rm(folder, { recursive: true, force: true });
  } else {
    console.log(`Logs and data of the processes: ${folder}. To repeat: --seed ${options.seed}`);
    process.exitCode = 1;
  }
  console.log(`\n${passed} passed, ${failed} failed`);
}

/** Runs one storm and prints its result. @returns the number of passed and failed checks */
async function runStorm(
  storm: StormName,
  database: DatabaseKind,
  { seed, payments, kills }: FaultTestOptions,
  folder: string,
  signal: AbortSignal,
): Promise<{ passed: number; failed: number }> {
  const stormRunners = { payments: runPaymentStorm, purchases: runPurchaseStorm };
  const name = `${storm}, ${database}`;
  const startedAtMs = performance.now();
  const [run] = await Promise.allSettled([
    stormRunners[storm]({
      database,
      seed,
      paymentCount: payments,
      killCount: kills,
      folder,
      signal,
      logProgress: (line) => console.log(`${name}: ${line}`),
    }),
  ]);
  const seconds = Math.round((performance.now() - startedAtMs) / 1000);
  console.log(`\n=== ${name}, seed ${seed}, ${seconds} s ===\n`);
  if (run.status === 'rejected') {
    console.log(run.reason, '\n');
    return { passed: 0, failed: 1 };
  }
  printResult(run.value);
  console.log();
  const failed = run.value.checkResults.filter(({ problems }) => problems.length > 0).length;
  return { passed: run.value.checkResults.length - failed, failed };
}

function printResult({ counts, checkResults }: StormResult): void {
  for (const [name, text] of Object.entries(counts)) {
    console.log(`${name.padEnd(24)}${text}`);
  }
  console.log();
  for (const { description, problems } of checkResults) {
    console.log(`${problems.length === 0 ? 'ok    ' : 'FAILED'}  ${description}`);
    for (const problem of problems.slice(0, MAX_PROBLEMS_SHOWN)) {
      console.log(`          ${problem}`);
    }
    if (problems.length > MAX_PROBLEMS_SHOWN) {
      console.log(`          and ${problems.length - MAX_PROBLEMS_SHOWN} more`);
    }
  }
}

/** Returns null if the arguments are invalid. */
function readOptions(): FaultTestOptions | null {
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
