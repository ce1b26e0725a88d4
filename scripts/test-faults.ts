import { randomInt } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { runStorm } from '../test/faults/run.ts';
import type { DatabaseKind } from '../test/faults/site.ts';
import { type RunResult, runPurchaseStorm } from '../test/purchases/run.ts';
import { runZapStorm } from '../test/zaps/run.ts';

/**
 * `npm run test:faults`: nothing paid is lost, whatever fails. Two storms of faults at the mints, one of
 * payments and one of purchases of names, and one of faults at the relays that receipts of zaps go to,
 * with the service killed at random moments; each on the embedded database and on PostgreSQL, side by
 * side.
 */

const DATABASES: readonly DatabaseKind[] = ['embedded', 'postgres'];

const STORMS = ['payments', 'purchases', 'zaps'] as const;

type StormName = (typeof STORMS)[number];

/** What goes on side by side, one wave after the other: more at a time would starve each other. */
const WAVES: readonly (readonly StormName[])[] = [['payments', 'purchases'], ['zaps']];

const DEFAULT_PAYMENTS = 200;

/** During purchases, over both databases. */
const DEFAULT_KILLS = 200;

/** Invoices of zaps, of which some are not paid. */
const DEFAULT_ZAPS = 100;

/** Of what is wrong in one way, so many examples are shown. */
const MAX_EXAMPLES = 10;

const USAGE = `Usage: npm run test:faults -- [--seed N] [--database ${DATABASES.join('|')}] [--storm ${STORMS.join('|')}]
       [--payments ${DEFAULT_PAYMENTS}] [--kills ${DEFAULT_KILLS}] [--zaps ${DEFAULT_ZAPS}]

  --seed N        repeats what a run left to chance; printed by each
  --database D    on one database alone
  --storm S       one storm alone
  --payments N    payments of the storm of payments
  --kills N       kills during the storm of purchases, over both databases
  --zaps N        invoices of the storm of zaps, or more until enough kills came in between
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
  zaps: number;
  databases: readonly DatabaseKind[];
  storms: readonly StormName[];
}

async function testFaults(options: Options): Promise<void> {
  const { seed, payments, kills, zaps, databases, storms } = options;
  console.log(`seed ${seed}`);
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => interrupted.abort(new Error(`interrupted by ${signal}`)));
  }
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-faults-'));
  const start = { payments: runStorm, purchases: runPurchaseStorm, zaps: runZapStorm };
  const runs: { name: string; run: PromiseSettledResult<RunResult> }[] = [];
  for (const wave of WAVES) {
    const named = wave
      .filter((storm) => storms.includes(storm))
      .flatMap((storm) =>
        databases.map((database) => ({ storm, database, name: `${storm}, ${database}` })),
      );
    const settled = await Promise.allSettled(
      named.map(({ storm, database, name }) =>
        start[storm]({
          database,
          seed,
          payments,
          kills,
          zaps,
          folder,
          signal: interrupted.signal,
          say: (line) => console.log(`${name}: ${line}`),
        }),
      ),
    );
    runs.push(...settled.map((run, index) => ({ name: named[index]?.name ?? '', run })));
  }
  let passed = 0;
  let failed = 0;
  for (const { name, run } of runs) {
    console.log(`\n=== ${name}, seed ${seed} ===\n`);
    if (run.status === 'rejected') {
      failed += 1;
      console.log(run.reason);
      continue;
    }
    const wrong = tell(run.value);
    failed += wrong;
    passed += run.value.verdicts.length - wrong;
  }
  if (failed === 0) {
    await rm(folder, { recursive: true, force: true });
  } else {
    console.log(`\nThe logs and data of the processes are in ${folder}; the seed was ${seed}.`);
    process.exitCode = 1;
  }
  console.log(`\n${passed} passed, ${failed} failed`);
}

/** Prints what was counted and what was checked. @returns how many checks failed */
function tell({ counts, verdicts }: RunResult): number {
  for (const [name, text] of Object.entries(counts)) {
    console.log(`${name.padEnd(24)}${text}`);
  }
  console.log();
  let wrong = 0;
  for (const { sentence, problems } of verdicts) {
    console.log(`${problems.length === 0 ? 'ok    ' : 'FAILED'}  ${sentence}`);
    for (const problem of problems.slice(0, MAX_EXAMPLES)) {
      console.log(`          ${problem}`);
    }
    if (problems.length > MAX_EXAMPLES) {
      console.log(`          and ${problems.length - MAX_EXAMPLES} more`);
    }
    wrong += problems.length === 0 ? 0 : 1;
  }
  return wrong;
}

/** Null where they are not understood. */
function readOptions(): Options | null {
  try {
    const text = { type: 'string' } as const;
    const { values } = parseArgs({
      options: { seed: text, payments: text, kills: text, zaps: text, database: text, storm: text },
    });
    const payments = Number(values.payments ?? DEFAULT_PAYMENTS);
    const kills = Number(values.kills ?? DEFAULT_KILLS);
    const zaps = Number(values.zaps ?? DEFAULT_ZAPS);
    const databases = DATABASES.filter((each) => each === (values.database ?? each));
    const storms = STORMS.filter((each) => each === (values.storm ?? each));
    const isUnderstood =
      [payments, kills, zaps].every((count) => Number.isSafeInteger(count) && count > 0) &&
      databases.length > 0 &&
      storms.length > 0;
    const seed = values.seed ?? String(randomInt(1_000_000_000));
    return isUnderstood ? { seed, payments, kills, zaps, databases, storms } : null;
  } catch {
    return null;
  }
}
