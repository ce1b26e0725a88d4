import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { percentile } from '../bench/harness/statistics.ts';
import { sqliteFile } from '../src/database/data-dir.ts';
import { Month } from '../test/soak/month.ts';

/**
 * `npm run test:soak`: a month of a small operator on SQLite in compressed time. The clock of the service, its mint and
 * its wallets moves by two hours after each twelfth of a day's invoices, so that invoices expire and are given up as in a
 * real month. Files, memory and response times must not grow beyond their bounds.
 */

const MAX_KB_PER_QUOTE = 2;
const MAX_WAL_MB = 64;

/** The last day against the first one. */
const MAX_P99_RATIO = 1.5;

/** A last day that something else on the machine slowed down is followed by another. A slow database stays slow. */
const MAX_MORE_DAYS = 3;

/** The mean of the last tenth of the days against the mean of the tenth before which memory may still grow. */
const MAX_MEMORY_RATIO = 1.15;

/** The number of missing payments that are printed. */
const MAX_EXAMPLES = 10;

const SAMPLE_EVERY_MS = 50;

const USAGE = 'Usage: npm run test:soak -- [--invoices 300000] [--days 30]\n';

/** What was measured on a day. */
interface Day {
  invoicesPerSecond: number;
  invoiceP99Ms: number;
  listP99Ms: number;
  /** The service's resident memory at the end of the day, without garbage. */
  memoryMb: number;
  maxWalMb: number;
}

const options = readOptions();
if (options === null) {
  process.stderr.write(USAGE);
  process.exitCode = 2;
} else {
  await testSoak(options);
}

async function testSoak({ invoices, days }: { invoices: number; days: number }): Promise<void> {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-soak-'));
  const dataDir = path.join(folder, 'data');
  const month = await Month.open(folder);
  const invoicesADay = Math.ceil(invoices / days);
  await month.warmUp(invoicesADay);
  const measured: Day[] = [];
  while (measured.length < days || (measured.length < days + MAX_MORE_DAYS && isSlower(measured))) {
    const day = await measureDay(month, invoicesADay, `${sqliteFile(dataDir)}-wal`);
    measured.push(day);
    console.log(`day ${String(measured.length).padStart(2)}: ${describeDay(day)}`);
  }
  const missing = await month.findMissing();
  await month.close();
  const kbPerQuote = (await sizeOf(dataDir)) / 1024 / month.issued;
  const verdicts = [...judge(measured, kbPerQuote), judgeMissing(missing)];
  const failed = verdicts.filter((isFine) => !isFine).length;
  if (failed === 0) {
    await rm(folder, { recursive: true });
  } else {
    console.log(`The database and the log are in ${folder}.`);
    process.exitCode = 1;
  }
  console.log(`${verdicts.length - failed} passed, ${failed} failed`);
}

async function measureDay(month: Month, invoices: number, walFile: string): Promise<Day> {
  let maxWalBytes = 0;
  const sample = async () => {
    maxWalBytes = Math.max(maxWalBytes, (await stat(walFile)).size);
  };
  const sampler = setInterval(() => void sample(), SAMPLE_EVERY_MS);
  const startedAtMs = performance.now();
  const { invoicesMs, listsMs } = await month.day(invoices);
  const seconds = (performance.now() - startedAtMs) / 1000;
  clearInterval(sampler);
  return {
    invoicesPerSecond: invoicesMs.length / seconds,
    invoiceP99Ms: percentile(invoicesMs, 0.99),
    listP99Ms: percentile(listsMs, 0.99),
    memoryMb: await month.service.memoryMb(),
    maxWalMb: maxWalBytes / 1024 ** 2,
  };
}

function describeDay(day: Day): string {
  return [
    `${day.invoicesPerSecond.toFixed(0)} invoices/s`,
    `p99 of invoices ${day.invoiceP99Ms.toFixed(1)} ms`,
    `p99 of lists ${day.listP99Ms.toFixed(1)} ms`,
    `memory ${day.memoryMb.toFixed(0)} MB`,
    `WAL at most ${day.maxWalMb.toFixed(1)} MB`,
  ].join(', ');
}

/** Returns the last day's figure as a multiple of the first day's. */
function ratioOf(days: readonly Day[], figure: 'invoiceP99Ms' | 'listP99Ms'): number {
  return (days.at(-1)?.[figure] ?? 0) / (days[0]?.[figure] ?? 0);
}

function isSlower(days: readonly Day[]): boolean {
  return Math.max(ratioOf(days, 'invoiceP99Ms'), ratioOf(days, 'listP99Ms')) > MAX_P99_RATIO;
}

/** Prints each figure beside its bound. @returns whether each is within it */
function judge(days: readonly Day[], kbPerQuote: number): boolean[] {
  const tenth = Math.ceil(days.length / 10);
  const memory = (some: readonly Day[]) => mean(some.map(({ memoryMb }) => memoryMb));
  const memoryRatio = memory(days.slice(-tenth)) / memory(days.slice(tenth, 2 * tenth));
  const figures = [
    ['KB of files for each quote', kbPerQuote, MAX_KB_PER_QUOTE],
    ['largest WAL file, MB', Math.max(...days.map(({ maxWalMb }) => maxWalMb)), MAX_WAL_MB],
    ['p99 of invoices, last day / first day', ratioOf(days, 'invoiceP99Ms'), MAX_P99_RATIO],
    ['p99 of lists, last day / first day', ratioOf(days, 'listP99Ms'), MAX_P99_RATIO],
    ['memory, last days / early days', memoryRatio, MAX_MEMORY_RATIO],
  ] as const;
  return figures.map(([title, value, bound]) => {
    const isFine = value <= bound;
    const text = `${title.padEnd(40)}${value.toFixed(2).padStart(8)}  (at most ${bound})`;
    console.log(`${isFine ? 'ok    ' : 'FAILED'}  ${text}`);
    return isFine;
  });
}

function judgeMissing(missing: readonly string[]): boolean {
  const isFine = missing.length === 0;
  console.log(
    `${isFine ? 'ok    ' : 'FAILED'}  every payment is in a list, and was sent as an update`,
  );
  for (const line of missing.slice(0, MAX_EXAMPLES)) {
    console.log(`        ${line}`);
  }
  return isFine;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

async function sizeOf(folder: string): Promise<number> {
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
