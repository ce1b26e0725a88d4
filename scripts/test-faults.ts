import { randomInt } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { CHECKS, type CheckName } from '../test/faults/findings.ts';
import { type RunResult, runStorm } from '../test/faults/run.ts';
import type { DatabaseKind } from '../test/faults/site.ts';

/**
 * `npm run test:faults`: nothing paid is lost, whatever fails. A storm of faults at the mints, with the
 * service killed at random moments, on the embedded database and on PostgreSQL, side by side.
 */

const DATABASES: readonly DatabaseKind[] = ['embedded', 'postgres'];

const DEFAULT_PAYMENTS = 200;

/** Of what is wrong in one way, so many examples are shown. */
const MAX_EXAMPLES = 10;

const USAGE = `Usage: npm run test:faults -- [--seed N] [--payments ${DEFAULT_PAYMENTS}] [--database ${DATABASES.join('|')}]
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
  databases: readonly DatabaseKind[];
}

async function testFaults({ seed, payments, databases }: Options): Promise<void> {
  console.log(`seed ${seed}`);
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => interrupted.abort(new Error(`interrupted by ${signal}`)));
  }
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-faults-'));
  const runs = await Promise.allSettled(
    databases.map((database) =>
      runStorm({
        database,
        seed,
        payments,
        folder,
        signal: interrupted.signal,
        say: (line) => console.log(`${database}: ${line}`),
      }),
    ),
  );
  let passed = 0;
  let failed = 0;
  for (const [index, run] of runs.entries()) {
    console.log(`\n=== ${databases[index]}, seed ${seed} ===\n`);
    if (run.status === 'rejected') {
      failed += 1;
      console.log(run.reason);
      continue;
    }
    const wrong = tell(run.value);
    failed += wrong;
    passed += Object.keys(CHECKS).length - wrong;
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
function tell({ counts, findings }: RunResult): number {
  for (const [name, text] of Object.entries(counts)) {
    console.log(`${name.padEnd(24)}${text}`);
  }
  console.log();
  let wrong = 0;
  for (const [name, sentence] of Object.entries(CHECKS)) {
    const problems = findings.of(name as CheckName);
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
    const { values } = parseArgs({ options: { seed: text, payments: text, database: text } });
    const payments = Number(values.payments ?? DEFAULT_PAYMENTS);
    const databases = DATABASES.filter((each) => each === (values.database ?? each));
    const isUnderstood = Number.isSafeInteger(payments) && payments > 0 && databases.length > 0;
    return isUnderstood
      ? { seed: values.seed ?? String(randomInt(1_000_000_000)), payments, databases }
      : null;
  } catch {
    return null;
  }
}
