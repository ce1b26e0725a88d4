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
 * `npm run test:faults`: runs two fault tests, called storms, on SQLite and on PostgreSQL. While payers pay invoices
 * and buy usernames, a storm kills the service's processes at random times and makes mints fail. Afterwards it checks
 * that no payment was lost and that every payer got an invoice in time.
 */

const DATABASES: readonly DatabaseKind[] = ['sqlite', 'postgres'];

const STORMS = ['payments', 'purchases'] as const;

type StormName = (typeof STORMS)[number];

/** A storm needs two CPU cores. With fewer cores for each, concurrent storms would slow each other down too much. */
const CORES_PER_STORM = 2;

/** For each failed check, the script prints at most this many problems. */
const MAX_SHOWN_PROBLEMS = 10;

const DEFAULT_PAYMENTS = 200;
const DEFAULT_KILLS = 200;

const USAGE = `Usage: npm run test:faults -- [--seed N] [--database ${DATABASES.join('|')}] [--storm ${STORMS.join('|')}]
       [--payments ${DEFAULT_PAYMENTS}] [--kills ${DEFAULT_KILLS}]

  --seed N        repeat the random choices of an earlier run; every run prints its seed
  --database D    use only this database
  --storm S       run only this storm
  --payments N    number of payments in the payments storm
  --kills N       number of kills in the purchases storms, divided between the databases
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
  const interruption = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => interruption.abort(new Error(`interrupted by ${signal}`)));
  }
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-faults-'));
  const waitingStorms = options.storms
    .flatMap((storm) => options.databases.map((database) => ({ storm, database })))
    .values();
  let passed = 0;
  let failed = 0;
  const runWaitingStorms = async () => {
    for (const { storm, database } of waitingStorms) {
      const result = await runStorm(storm, database, options, folder, interruption.signal);
      passed += result.passed;
      failed += result.failed;
      if (interruption.signal.aborted) {
        return;
      }
    }
  };
  const concurrency = Math.max(1, Math.floor(availableParallelism() / CORES_PER_STORM));
  await Promise.all(Array.from({ length: concurrency }, runWaitingStorms));
  if (failed === 0) {
    await rm(folder, { recursive: true, force: true });
  } else {
    console.log(
      `The logs and data of the processes are in ${folder}. To repeat the run: --seed ${options.seed}`,
    );
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
  const title = `${storm}, ${database}`;
  const startedAtMs = performance.now();
  const [outcome] = await Promise.allSettled([
    stormRunners[storm]({
      database,
      seed,
      paymentCount: payments,
      killCount: kills,
      folder,
      signal,
      logProgress: (line) => console.log(`${title}: ${line}`),
    }),
  ]);
  const seconds = Math.round((performance.now() - startedAtMs) / 1000);
  console.log(`\n=== ${title}, seed ${seed}, ${seconds} s ===\n`);
  if (outcome.status === 'rejected') {
    console.log(outcome.reason, '\n');
    return { passed: 0, failed: 1 };
  }
  printResult(outcome.value);
  console.log();
  const { checkResults } = outcome.value;
  const failed = checkResults.filter(({ problems }) => problems.length > 0).length;
  return { passed: checkResults.length - failed, failed };
}

function printResult({ counts, checkResults }: StormResult): void {
  for (const [name, count] of Object.entries(counts)) {
    console.log(`${name.padEnd(24)}${count}`);
  }
  console.log();
  for (const { description, problems } of checkResults) {
    console.log(`${problems.length === 0 ? 'ok    ' : 'FAILED'}  ${description}`);
    for (const problem of problems.slice(0, MAX_SHOWN_PROBLEMS)) {
      console.log(`          ${problem}`);
    }
    if (problems.length > MAX_SHOWN_PROBLEMS) {
      console.log(`          and ${problems.length - MAX_SHOWN_PROBLEMS} more`);
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
    const payments = Number(values.payments ?? DEFAULT_PAYMENTS);
    const kills = Number(values.kills ?? DEFAULT_KILLS);
    const isChosen = (choice: string | undefined, name: string) =>
      choice === undefined || choice === name;
    const databases = DATABASES.filter((name) => isChosen(values.database, name));
    const storms = STORMS.filter((name) => isChosen(values.storm, name));
    const isValid =
      [payments, kills].every((count) => Number.isSafeInteger(count) && count > 0) &&
      databases.length > 0 &&
      storms.length > 0;
    return isValid ? { seed, payments, kills, databases, storms } : null;
  } catch {
    return null;
  }
}
