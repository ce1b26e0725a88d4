import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { percentile } from '../bench/harness/statistics.ts';
import { sqliteFilePath } from '../src/database/data-dir.ts';
import { SoakScenario } from '../test/soak/soak-scenario.ts';

/**
 * `npm run test:soak`: simulates a month of a small operator's service on SQLite. Each simulated day has the same
 * number of invoices, and the clock advances so that they expire as in a real month. Checks that file sizes, memory
 * and response times stay within their limits, and that no payment is lost.
 */

const MAX_KB_PER_QUOTE = 2;
const MAX_WAL_MB = 64;

/** Limit for the p99 response time of the last day, divided by that of the first day. */
const MAX_P99_RATIO = 1.5;

/**
 * If the last day is too slow, the test measures up to this many more days. A day can be slow because of other
 * programs on the machine, but a database that has become slow stays slow.
 */
const MAX_EXTRA_DAYS = 3;

/**
 * Limit for the mean memory of the last tenth of the days, divided by that of the second tenth. During the first
 * tenth, memory may still grow.
 */
const MAX_MEMORY_RATIO = 1.15;

const MAX_SHOWN_PROBLEMS = 10;

const WAL_SAMPLE_INTERVAL_MS = 50;

const DEFAULT_INVOICES = 300_000;
const DEFAULT_DAYS = 30;

const USAGE = `Usage: npm run test:soak -- [--invoices ${DEFAULT_INVOICES}] [--days ${DEFAULT_DAYS}]\n`;

interface DayMeasurements {
  invoicesPerSecond: number;
  invoiceP99Ms: number;
  listP99Ms: number;
  /** The service's resident memory at the end of the day, after a garbage collection. */
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
  const measuredDays: DayMeasurements[] = [];
  while (
    measuredDays.length < days ||
    (measuredDays.length < days + MAX_EXTRA_DAYS && isLastDayTooSlow(measuredDays))
  ) {
    const day = await measureDay(scenario, invoicesPerDay, `${sqliteFilePath(dataDir)}-wal`);
    measuredDays.push(day);
    console.log(`day ${String(measuredDays.length).padStart(2)}: ${describeDay(day)}`);
  }
  const missingPayments = await scenario.findMissingPayments();
  await scenario.close();
  const kbPerQuote = (await measureFolderBytes(dataDir)) / 1024 / scenario.invoiceCount;
  const checks = [...checkLimits(measuredDays, kbPerQuote), checkMissingPayments(missingPayments)];
  const failed = checks.filter((hasPassed) => !hasPassed).length;
  if (failed === 0) {
    await rm(folder, { recursive: true });
  } else {
    console.log(`The database and the log are in ${folder}.`);
    process.exitCode = 1;
  }
  console.log(`${checks.length - failed} passed, ${failed} failed`);
}

async function measureDay(
  scenario: SoakScenario,
  invoiceCount: number,
  walFile: string,
): Promise<DayMeasurements> {
  let maxWalBytes = 0;
  const sampleWalSize = async () => {
    maxWalBytes = Math.max(maxWalBytes, (await stat(walFile)).size);
  };
  const sampleTimer = setInterval(() => void sampleWalSize(), WAL_SAMPLE_INTERVAL_MS);
  const startedAtMs = performance.now();
  const { invoicesMs, listsMs } = await scenario.runDay(invoiceCount);
  const seconds = (performance.now() - startedAtMs) / 1000;
  clearInterval(sampleTimer);
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
  measurement: 'invoiceP99Ms' | 'listP99Ms',
): number {
  return (days.at(-1)?.[measurement] ?? 0) / (days[0]?.[measurement] ?? 0);
}

function isLastDayTooSlow(days: readonly DayMeasurements[]): boolean {
  return (
    Math.max(lastToFirstRatio(days, 'invoiceP99Ms'), lastToFirstRatio(days, 'listP99Ms')) >
    MAX_P99_RATIO
  );
}

/** Prints each measurement with its limit. Returns whether each of them is within its limit. */
function checkLimits(days: readonly DayMeasurements[], kbPerQuote: number): boolean[] {
  const tenth = Math.ceil(days.length / 10);
  const meanMemoryMb = (someDays: readonly DayMeasurements[]) =>
    mean(someDays.map(({ memoryMb }) => memoryMb));
  const memoryRatio = meanMemoryMb(days.slice(-tenth)) / meanMemoryMb(days.slice(tenth, 2 * tenth));
  const measurements = [
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
  return measurements.map(([title, value, limit]) => {
    const hasPassed = value <= limit;
    const text = `${title.padEnd(40)}${value.toFixed(2).padStart(8)}  (at most ${limit})`;
    console.log(`${hasPassed ? 'ok    ' : 'FAILED'}  ${text}`);
    return hasPassed;
  });
}

function checkMissingPayments(descriptions: readonly string[]): boolean {
  const hasPassed = descriptions.length === 0;
  console.log(`${hasPassed ? 'ok    ' : 'FAILED'}  every payment was listed and sent as an update`);
  for (const description of descriptions.slice(0, MAX_SHOWN_PROBLEMS)) {
    console.log(`        ${description}`);
  }
  return hasPassed;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

async function measureFolderBytes(folder: string): Promise<number> {
  const files = await readdir(folder);
  const sizes = await Promise.all(files.map((file) => stat(path.join(folder, file))));
  return sizes.reduce((sum, { size }) => sum + size, 0);
}

/** Returns null if the arguments are invalid. */
function readOptions(): { invoices: number; days: number } | null {
  try {
    const text = { type: 'string' } as const;
    const { values } = parseArgs({ options: { invoices: text, days: text } });
    const invoices = Number(values.invoices ?? DEFAULT_INVOICES);
    const days = Number(values.days ?? DEFAULT_DAYS);
    return [invoices, days].every((count) => Number.isSafeInteger(count) && count > 1)
      ? { invoices, days }
      : null;
  } catch {
    return null;
  }
}
