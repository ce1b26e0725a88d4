import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { FAULT_KINDS } from './faults.ts';
import { readPlantedFaults } from './planted-faults.ts';
import type { Violation } from './referee.ts';
import type { SeedResult, SeedRun } from './run-seeds.ts';
import type { Scenario } from './scenario.ts';
import { SEED_PROCESS_RULE, SeedProcess } from './seed-process.ts';
import { shrink } from './shrink.ts';

// `npm run simulate`: runs seeds in child processes, and reports what breaks.

const USAGE = `npm run simulate -- [OPTIONS]

Which seeds (without: 100 fresh ones):
  --seed N                 one, and print its history
  --seeds N [--first N]    N fixed ones, from 1 or another
  --fresh N                N new ones, chosen by the clock
  --minutes M, --hours H   new ones until the time is over

What a seed does:
  --without KIND,...       leave out these kinds of faults
  --with KIND,...          leave out all other kinds
  --scenario NAME=VALUE,.. instances, mints, relays, recipients, payments, sales and others (scenario.ts)
  --busy                   many payments in 100 seconds, at two instances and five mints, without faults
  --planted NAME           plant a fault in the service, see planted-faults.txt
  --until SECONDS          stop at this simulated time

What is printed:
  --print                  the history of each seed
  --only ID                only what concerns the payment with this hash, quote id, invoice or payer (payer-7);
                           the hash is that of all lines of the history
  --fail                   fail at the last payment, to see what a failure looks like

  --jobs N                 processes (default: one per core)`;

const BUSY: Scenario = {
  instances: 2,
  mints: 5,
  relays: 0,
  recipients: 100,
  shops: 0,
  wallets: 1,
  operators: 0,
  payments: 2_000,
  arrivals: 'steady',
  sales: 0,
  activeMs: 100_000,
  expirySeconds: null,
  quoteRetentionMs: null,
  outageHours: 0,
  hasCalmPhase: false,
  checksLeaks: false,
};
/** All others are numbers, and may be 0. */
const SCENARIO_VALUES: Readonly<Record<string, RegExp>> = {
  instances: /^[1-9]\d*$/,
  mints: /^[1-9]\d*$/,
  operators: /^[01]$/,
  arrivals: /^(steady|bursts)$/,
  expirySeconds: /^(\d+|null)$/,
  quoteRetentionMs: /^(\d+|null)$/,
  hasCalmPhase: /^(true|false)$/,
  checksLeaks: /^(true|false)$/,
};

const PROGRESS_INTERVAL_MS = 10_000;
const SHRINKING_MS = 60_000;

const options = readOptions();
const startedAtMs = Date.now();
const isPrinting = options.print || options.seed !== undefined || options.only !== undefined;
const totals = {
  seeds: 0,
  failed: 0,
  payments: 0,
  simulatedMs: 0,
  faults: new Map<string, number>(),
};
/** The rules that a report has shown. Further failures get one line each. */
const reportedRules = new Set<string>();
let firstFresh: number | null = null;
let latestProgressMs = startedAtMs;

if (options.help) {
  console.log(USAGE);
} else {
  await runAll();
}

function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        seed: { type: 'string' },
        seeds: { type: 'string' },
        first: { type: 'string' },
        fresh: { type: 'string' },
        minutes: { type: 'string' },
        hours: { type: 'string' },
        without: { type: 'string' },
        with: { type: 'string' },
        scenario: { type: 'string' },
        busy: { type: 'boolean' },
        until: { type: 'string' },
        planted: { type: 'string' },
        print: { type: 'boolean' },
        only: { type: 'string' },
        jobs: { type: 'string' },
        fail: { type: 'boolean', default: false },
        help: { type: 'boolean' },
      },
    });
    const { seed, seeds, first, fresh, minutes, hours, until, jobs } = values;
    const numbers = { seed, seeds, first, fresh, minutes, hours, until, jobs };
    for (const [name, text] of Object.entries(numbers)) {
      const least = name === 'jobs' ? 1 : 0;
      if (text !== undefined && !(text.trim() !== '' && Number(text) >= least)) {
        throw new Error(`--${name} must be a number of at least ${least} (got '${text}').`);
      }
    }
    checkNames('kind of fault', FAULT_KINDS, [
      ...splitList(values.with),
      ...splitList(values.without),
    ]);
    const scenarioNames = splitList(values.scenario).map((part) => part.replace(/=.*/, ''));
    checkNames('scenario value', Object.keys(BUSY), scenarioNames);
    splitList(values.scenario).forEach(checkScenarioValue);
    const plantedFaults = readPlantedFaults().map(({ name }) => name);
    checkNames(
      'planted fault',
      plantedFaults,
      values.planted === undefined ? [] : [values.planted],
    );
    return values;
  } catch (error) {
    console.error(`${(error as Error).message} See 'npm run simulate -- --help'.`);
    process.exit(2);
  }
}

/** A scenario with a wrong value would run nothing, and pass. */
function checkScenarioValue(choice: string): void {
  const [name = '', value = ''] = choice.split('=');
  const pattern = SCENARIO_VALUES[name] ?? /^\d+$/;
  if (!pattern.test(value)) {
    throw new Error(`The scenario value ${name} cannot be '${value}'.`);
  }
}

function checkNames(what: string, known: readonly string[], names: readonly string[]): void {
  for (const name of names) {
    if (!known.includes(name)) {
      throw new Error(`There is no ${what} '${name}'. Known: ${known.join(', ')}.`);
    }
  }
}

async function runAll(): Promise<void> {
  const seeds = chooseSeeds();
  const jobs = Number(options.jobs ?? availableParallelism());
  await Promise.all(Array.from({ length: jobs }, () => work(seeds)));
  if (options.seed === undefined) {
    printSummary();
  }
  if (totals.failed > 0) {
    process.exitCode = 1;
  }
}

async function work(seeds: Iterator<number>): Promise<void> {
  const child = new SeedProcess();
  for (let next = seeds.next(); !next.done; next = seeds.next()) {
    const run = createRun(String(next.value));
    const result = await child.run(run);
    count(result);
    if (isPrinting) {
      const seconds = Math.round(result.simulatedMs / 1_000);
      console.log(result.lines.join('\n'));
      console.log(
        `Seed ${run.seed}: ${result.payments} payments in ${seconds} s, hash ${result.hash}`,
      );
    }
    if (options.only !== undefined && result.lines.length === 0) {
      console.error(`No invoice of seed ${run.seed} has the id '${options.only}'.`);
      process.exitCode = 1;
    }
    const [violation] = result.violations;
    if (violation !== undefined) {
      await reportFailure(child, run, violation);
    }
  }
  child.stop();
}

function* chooseSeeds(): Generator<number> {
  const { seed, seeds, first, fresh, minutes, hours } = options;
  if (seed !== undefined) {
    yield Number(seed);
    return;
  }
  const firstFixed = Number(first ?? 1);
  const fixedCount = Number(seeds ?? (first === undefined ? 0 : 1));
  for (let number = firstFixed; number < firstFixed + fixedCount; number += 1) {
    yield number;
  }
  const durationMs = Number(minutes ?? 0) * 60_000 + Number(hours ?? 0) * 3_600_000;
  const defaultCount = fixedCount === 0 && durationMs === 0 ? 100 : 0;
  const freshCount = Number(fresh ?? defaultCount);
  const endsAtMs = startedAtMs + durationMs;
  for (let index = 0; index < freshCount || Date.now() < endsAtMs; index += 1) {
    firstFresh ??= startedAtMs;
    yield startedAtMs + index;
  }
}

function createRun(seed: string): SeedRun {
  const choices = splitList(options.scenario).map((part) => {
    const [name, value = ''] = part.split('=');
    return [name, /^[\d-]|true|false|null/.test(value) ? JSON.parse(value) : value];
  });
  const only = options.with ?? (options.busy ? '' : undefined);
  let history: SeedRun['history'] = isPrinting ? 'all' : 'none';
  if (options.only !== undefined) {
    history = { concerning: options.only };
  }
  return {
    seed,
    without: splitList(options.without),
    only: only === undefined ? null : splitList(only),
    scenario: { ...(options.busy && BUSY), ...Object.fromEntries(choices) },
    untilMs: options.until === undefined ? null : Number(options.until) * 1_000,
    stopsEarly: false,
    history,
    shouldFail: options.fail,
  };
}

function splitList(text = ''): string[] {
  return text.split(',').filter((part) => part !== '');
}

function count({ payments, simulatedMs, faults, violations }: SeedResult): void {
  totals.seeds += 1;
  totals.failed += violations.length > 0 ? 1 : 0;
  totals.payments += payments;
  totals.simulatedMs += simulatedMs;
  for (const [kind, times] of Object.entries(faults)) {
    totals.faults.set(kind, (totals.faults.get(kind) ?? 0) + times);
  }
  if (!isPrinting && Date.now() - latestProgressMs > PROGRESS_INTERVAL_MS) {
    latestProgressMs = Date.now();
    console.log(`${describeTotals()}, ${totals.failed} failed`);
  }
}

async function reportFailure(child: SeedProcess, run: SeedRun, first: Violation): Promise<void> {
  const failed = await child.run({ ...run, history: 'end' });
  const [violation] = failed.violations;
  if (violation === undefined) {
    console.log(
      `\nSeed ${run.seed} breaks the rule '${first.rule}', but not when it is repeated: ${first.text}`,
    );
    return;
  }
  const { rule, text, atMs } = violation;
  console.log(
    `\nSeed ${run.seed} breaks the rule '${rule}' at ${(atMs / 1_000).toFixed(3)} s: ${text}`,
  );
  if (reportedRules.has(rule) || isPrinting) {
    return;
  }
  reportedRules.add(rule);
  console.log(failed.lines.join('\n'));
  if (rule === SEED_PROCESS_RULE) {
    console.log(`\nReplay it with:\n${describeCommand(run)}`);
    return;
  }
  const smallest = await shrink(child, run, failed, Date.now() + SHRINKING_MS);
  const kinds = smallest.only?.join(', ') || 'none';
  console.log(
    `\nNeeded faults: ${kinds}. Replay a shorter form with:\n${describeCommand(smallest)}`,
  );
}

/** Returns the command that does the same again. */
function describeCommand({ seed, only, without, scenario }: SeedRun): string {
  const numbers = Object.entries(scenario).map(([name, value]) => `${name}=${value}`);
  return [
    `npm run simulate -- --seed ${seed}`,
    only !== null && `--with '${only.join(',')}'`,
    without.length > 0 && `--without '${without.join(',')}'`,
    numbers.length > 0 && `--scenario ${numbers.join(',')}`,
    options.until !== undefined && `--until ${options.until}`,
    options.planted !== undefined && `--planted '${options.planted}'`,
    options.fail && '--fail',
  ]
    .filter((part) => part !== false)
    .join(' ');
}

function printSummary(): void {
  const fresh = firstFresh === null ? '' : `\nFresh seeds: from ${firstFresh}`;
  const faults = [...totals.faults].sort(([, one], [, other]) => other - one);
  console.log(`\n${describeTotals()}${fresh}`);
  console.log(`Faults: ${faults.map(([kind, times]) => `${kind} ${times}`).join(', ') || 'none'}`);
  console.log(`${totals.seeds - totals.failed} passed, ${totals.failed} failed`);
}

function describeTotals(): string {
  const { seeds, payments, simulatedMs } = totals;
  const seconds = (Date.now() - startedAtMs) / 1_000;
  const days = simulatedMs / 86_400_000;
  const time = `${days.toFixed(1)} days (${(days / 365).toFixed(3)} years)`;
  const rate = Math.round(payments / seconds);
  return `${seeds} seeds, ${payments} payments, ${time} simulated in ${seconds.toFixed(1)} s (${rate} payments/s)`;
}
