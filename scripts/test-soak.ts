import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { percentile } from '../bench/harness/statistics.ts';
import { sqliteFilePath } from '../src/database/data-dir.ts';
import { SoakScenario } from '../test/soak/soak-scenario.ts';

/**
 * `npm run test:soak`: simulates a month of a small operator on SQLite. The clock of the service, its mint and its wallets
 * advances by two hours after each twelfth of a day's invoices, so that invoices expire as in a real month. Files, memory
 * and response times must stay within their bounds.
 */

const MAX_KB_PER_QUOTE = 2;
const MAX_WAL_MB = 64;

/** Last day relative to the first day. */
const MAX_P99_RATIO = 1.5;

/** If the last day is too slow, more days are measured: other load on the machine passes, a slow database does not. */
const MAX_EXTRA_DAYS = 3;

/** Mean of the last tenth of the days relative to the second tenth. Memory may still grow during the first. */
const MAX_MEMORY_RATIO = 1.15;

const MAX_PROBLEMS_SHOWN = 10;

const WAL_SAMPLE_INTERVAL_MS = 50;

const USAGE = 'Usage: npm run test:soak -- [--invoices 300000] [--days 30]\n';

interface DayMeasurements {
  invoicesPerSecond: number;
  invoiceP99Ms: number;
  listP99Ms: number;
  /** Resident memory of the service at the end of the day, after a garbage collection. */
  memoryMb: number;
  maxWalMb: number;
}

const options = readOptions();
if (options === null) {
  process.stderr.write(USAGE);
  process.exitCode = 2;
} else {
  await runSoakTest(options);
}

async function runSoakTest({ invoices, days }: { invoices: number; days: number }): Promise<void> {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-soak-'));
  const dataDir = path.join(folder, 'data');
  const scenario = await SoakScenario.start(folder);
  const invoicesPerDay = Math.ceil(invoices / days);
  await scenario.warmUp(invoicesPerDay);
  const measured: DayMeasurements[] = [];
  while (
    measured.length < days ||
    (measured.length < days + MAX_EXTRA_DAYS && isSlower(measured))
  ) {
    const day = await measureDay(scenario, invoicesPerDay, `${sqliteFilePath(dataDir)}-wal`);
    measured.push(day);
    console.log(`day ${String(measured.length).padStart(2)}: ${describeDay(day)}`);
  }
  const missing = await scenario.findMissingPayments();
  await scenario.close();
  const kbPerQuote = (await folderBytes(dataDir)) / 1024 / scenario.issuedInvoiceCount;
  const results = [...checkBounds(measured, kbPerQuote), checkMissing(missing)];
  const failed = results.filter((hasPassed) => !hasPassed).length;
  if (failed === 0) {
    await rm(folder, { recursive: true });
  } else {
    console.log(`The database and the log are in ${folder}.`);
    process.exitCode = 1;
  }
  console.log(`${results.length - failed} passed, ${failed} failed`);
}

async function measureDay(
  scenario: SoakScenario,
  invoices: number,
  walFile: string,
): Promise<DayMeasurements> {
  let maxWalBytes = 0;
  const sample = async () => {
    maxWalBytes = Math.max(maxWalBytes, (await stat(walFile)).size);
  };
  const sampler = setInterval(() => void sample(), WAL_SAMPLE_INTERVAL_MS);
  const startedAtMs = performance.now();
  const { invoicesMs, listsMs } = await scenario.runDay(invoices);
  const seconds = (performance.now() - startedAtMs) / 1000;
  clearInterval(sampler);
  return {
    invoicesPerSecond: invoicesMs.length / seconds,
    invoiceP99Ms: percentile(invoicesMs, 0.99),
    listP99Ms: percentile(listsMs, 0.99),
    memoryMb: await scenario.service.measureMemoryMb(),
    maxWalMb: maxWalBytes / 1024 ** 2,
  };
}

function describeDay(day: DayMeasurements): string {
  return [
    `${day.invoicesPerSecond.toFixed(0)} invoices/s`,
    `p99 of invoices ${day.invoiceP99Ms.toFixed(1)} ms`,
    `p99 of lists ${day.listP99Ms.toFixed(1)} ms`,
    `memory ${day.memoryMb.toFixed(0)} MB`,
    `WAL at most ${day.maxWalMb.toFixed(1)} MB`,
  ].join(', ');
}

function lastToFirstRatio(
  days: readonly DayMeasurements[],
  figure: 'invoiceP99Ms' | 'listP99Ms',
): number {
  return (days.at(-1)?.[figure] ?? 0) / (days[0]?.[figure] ?? 0);
}

function isSlower(days: readonly DayMeasurements[]): boolean {
  return (
    Math.max(lastToFirstRatio(days, 'invoiceP99Ms'), lastToFirstRatio(days, 'listP99Ms')) >
    MAX_P99_RATIO
  );
}

/** Prints each figure with its bound. @returns for each figure, whether it is within the bound */
function checkBounds(days: readonly DayMeasurements[], kbPerQuote: number): boolean[] {
  const tenth = Math.ceil(days.length / 10);
  const memory = (some: readonly DayMeasurements[]) => mean(some.map(({ memoryMb }) => memoryMb));
  const memoryRatio = memory(days.slice(-tenth)) / memory(days.slice(tenth, 2 * tenth));
  const figures = [
    ['KB of files for each quote', kbPerQuote, MAX_KB_PER_QUOTE],
    ['largest WAL file, MB', Math.max(...days.map(({ maxWalMb }) => maxWalMb)), MAX_WAL_MB],
    [
      'p99 of invoices, last day / first day',
      lastToFirstRatio(days, 'invoiceP99Ms'),
      MAX_P99_RATIO,
    ],
    ['p99 of lists, last day / first day', lastToFirstRatio(days, 'listP99Ms'), MAX_P99_RATIO],
    ['memory, last days / early days', memoryRatio, MAX_MEMORY_RATIO],
  ] as const;
  return figures.map(([title, value, bound]) => {
    const hasPassed = value <= bound;
    const text = `${title.padEnd(40)}${value.toFixed(2).padStart(8)}  (at most ${bound})`;
    console.log(`${hasPassed ? 'ok    ' : 'FAILED'}  ${text}`);
    return hasPassed;
  });
}

function checkMissing(missing: readonly string[]): boolean {
  const hasPassed = missing.length === 0;
  console.log(`${hasPassed ? 'ok    ' : 'FAILED'}  every payment was listed and sent as an update`);
  for (const line of missing.slice(0, MAX_PROBLEMS_SHOWN)) {
    console.log(`        ${line}`);
  }
  return hasPassed;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

async function folderBytes(folder: string): Promise<number> {
  const files = await readdir(folder);
  const sizes = await Promise.all(files.map((file) => stat(path.join(folder, file))));
  return sizes.reduce((sum, { size }) => sum + size, 0);
}

/** Returns null if the arguments are invalid. */
function readOptions(): { invoices: number; days: number } | null {
  try {
    const text = { type: 'string' } as const;
    const { values } = parseArgs({ options: { invoices: text, days: text } });
    const invoices = Number(values.invoices ?? 300_000);
    const days = Number(values.days ?? 30);
    return [invoices, days].every((count) => Number.isSafeInteger(count) && count > 1)
      ? { invoices, days }
      : null;
  } catch {
    return null;
  }
}
