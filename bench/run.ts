import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { startPostgresCluster } from '../scripts/postgres-cluster.ts';
import { measureDeepList } from './figures/deep-list.ts';
import { measureIdleMemory } from './figures/idle-memory.ts';
import { measureInvoice } from './figures/invoice.ts';
import { measureNip98 } from './figures/nip98.ts';
import { measureNotifications } from './figures/notifications.ts';
import { measurePayRequest } from './figures/pay-request.ts';
import { measurePaymentToUpdate } from './figures/payment-to-update.ts';
import { measureQuoteList } from './figures/quote-list.ts';
import { measureSocketMemory } from './figures/socket-memory.ts';
import { measureStartup } from './figures/startup.ts';
import { measureWatcher } from './figures/watcher.ts';
import { type Benchmark, type BenchmarkOptions, loosenBound } from './harness/figure.ts';
import { stopProcesses } from './harness/processes.ts';
import { type BenchmarkReport, exitCodeOf, renderReport } from './harness/report.ts';
import { parseWholeNumber } from './harness/whole-number.ts';

/**
 * `npm run bench`: measures the speed and resource usage of the service. Prints a table that compares every
 * figure with a floor from the same run, or with a bound.
 */

/** The benchmark of each figure, in the order of the table. */
const BENCHMARKS: Record<string, Benchmark> = {
  start: measureStartup,
  'idle-memory': measureIdleMemory,
  discovery: measurePayRequest,
  invoice: measureInvoice,
  'quote-list': measureQuoteList,
  nip98: measureNip98,
  'deep-list': measureDeepList,
  'payment-to-update': measurePaymentToUpdate,
  notifications: measureNotifications,
  sockets: measureSocketMemory,
  watcher: measureWatcher,
};

const USAGE = `Usage: npm run bench -- [options] [figure ...]

  --must-reach        exit with 1 if a figure misses its bound
  --loosen 1          accept less: 0.7 accepts 70 % of each ratio
  --runs 3            runs of each figure
  --seconds 3         length of a run, after its warm-up
  --warm-up 6         seconds of load before a run
  --quotes 10000000   quotes in the table (deep-list)

Figures: ${Object.keys(BENCHMARKS).join(', ')}. Default: all.
`;

let isInterrupted = false;
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  // The current benchmark fails when its processes stop, and the database server is then stopped. A second
  // signal exits immediately.
  process.on(signal, () => {
    if (isInterrupted) {
      process.exit(1);
    }
    isInterrupted = true;
    stopProcesses();
  });
}

try {
  process.exitCode = await runBenchmarks(readArguments());
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

interface Arguments {
  names: string[];
  options: BenchmarkOptions;
  mustReach: boolean;
  boundFactor: number;
}

function readArguments(): Arguments {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        'must-reach': { type: 'boolean', default: false },
        loosen: { type: 'string', default: '1' },
        runs: { type: 'string', default: '3' },
        seconds: { type: 'string', default: '3' },
        'warm-up': { type: 'string', default: '6' },
        quotes: { type: 'string', default: '10000000' },
      },
    });
    const unknown = positionals.find((name) => !(name in BENCHMARKS));
    if (unknown !== undefined) {
      throw new Error(`Unknown figure: ${unknown}`);
    }
    const names = Object.keys(BENCHMARKS);
    return {
      names: positionals.length === 0 ? names : names.filter((name) => positionals.includes(name)),
      options: {
        runCount: parseWholeNumber('--runs', values.runs),
        secondsPerRun: parseWholeNumber('--seconds', values.seconds),
        warmUpSeconds: parseWholeNumber('--warm-up', values['warm-up']),
        quoteCount: parseWholeNumber('--quotes', values.quotes),
      },
      mustReach: values['must-reach'],
      boundFactor: parseBoundFactor(values.loosen),
    };
  } catch (error) {
    throw new Error(`${error instanceof Error ? error.message : error}\n\n${USAGE}`);
  }
}

function parseBoundFactor(text: string): number {
  const factor = Number(text);
  if (!(factor > 0 && factor <= 1)) {
    throw new Error(`--loosen must be a number above 0 and up to 1 (got '${text}')`);
  }
  return factor;
}

async function runBenchmarks({
  names,
  options,
  mustReach,
  boundFactor,
}: Arguments): Promise<number> {
  const report: BenchmarkReport = { rows: [], failures: [] };
  const cluster = await startPostgresCluster({ durable: true });
  try {
    for (const name of names) {
      if (isInterrupted) {
        throw new Error('interrupted');
      }
      console.log(`measuring ${name}`);
      try {
        const rows = (await BENCHMARKS[name]?.(cluster.url, options)) ?? [];
        report.rows.push(...rows.map((row) => loosenBound(row, boundFactor)));
      } catch (error) {
        report.failures.push(`${name}: ${error instanceof Error ? error.message : error}`);
      }
    }
  } finally {
    await cluster.stop();
  }
  const processors = `${cpus().length} x ${cpus()[0]?.model}`;
  console.log(`\n${processors}, Node ${process.version}, PostgreSQL ${cluster.version}\n`);
  console.log(renderReport(report));
  return exitCodeOf(report, mustReach);
}
