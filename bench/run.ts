import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { startCluster } from '../scripts/postgres-cluster.ts';
import { measureDeepList } from './figures/deep-list.ts';
import { measureDiscovery } from './figures/discovery.ts';
import { measureIdleMemory } from './figures/idle-memory.ts';
import { measureInvoice } from './figures/invoice.ts';
import { measureNip98 } from './figures/nip98.ts';
import { measurePaymentToUpdate } from './figures/payment-to-update.ts';
import { measureQuoteList } from './figures/quote-list.ts';
import { measureSockets } from './figures/sockets.ts';
import { measureStart } from './figures/start.ts';
import { measureWatcher } from './figures/watcher.ts';
import type { Effort, Figure } from './harness/figure.ts';
import { stopProcesses } from './harness/processes.ts';
import { exitCodeOf, type Outcome, renderReport } from './harness/report.ts';

/**
 * `npm run bench`: measures how fast the service is and what it needs. Prints one table, in which every
 * figure stands beside a floor of the same run or a bound.
 */

/** In the order of the table. */
const FIGURES: Record<string, Figure> = {
  start: measureStart,
  'idle-memory': measureIdleMemory,
  discovery: measureDiscovery,
  invoice: measureInvoice,
  'quote-list': measureQuoteList,
  nip98: measureNip98,
  'deep-list': measureDeepList,
  'payment-to-update': measurePaymentToUpdate,
  sockets: measureSockets,
  watcher: measureWatcher,
};

const USAGE = `Usage: npm run bench -- [options] [figure ...]

  --must-reach        exit with 1 if a figure misses its bound
  --runs 3            runs of each figure
  --seconds 3         length of a run, after its warm-up
  --quotes 10000000   quotes in the table (deep-list)

Figures: ${Object.keys(FIGURES).join(', ')}. Default: all.
`;

let interrupted = false;
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  // The figure under way fails without its processes, and the database server is stopped. A second signal
  // does not wait for that.
  process.on(signal, () => {
    if (interrupted) {
      process.exit(1);
    }
    interrupted = true;
    stopProcesses();
  });
}

try {
  const { names, effort, mustReach } = readArguments();
  process.exitCode = await bench(names, effort, mustReach);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

function readArguments(): { names: string[]; effort: Effort; mustReach: boolean } {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        'must-reach': { type: 'boolean', default: false },
        runs: { type: 'string', default: '3' },
        seconds: { type: 'string', default: '3' },
        quotes: { type: 'string', default: '10000000' },
      },
    });
    const unknown = positionals.find((name) => !(name in FIGURES));
    if (unknown !== undefined) {
      throw new Error(`Unknown figure: ${unknown}`);
    }
    const names = Object.keys(FIGURES);
    return {
      names: positionals.length === 0 ? names : names.filter((name) => positionals.includes(name)),
      effort: {
        runs: wholeNumber('--runs', values.runs),
        seconds: wholeNumber('--seconds', values.seconds),
        quotes: wholeNumber('--quotes', values.quotes),
      },
      mustReach: values['must-reach'],
    };
  } catch (error) {
    throw new Error(`${error instanceof Error ? error.message : error}\n\n${USAGE}`);
  }
}

function wholeNumber(option: string, text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1) {
    throw new Error(`${option} must be a whole number of at least 1 (got '${text}').`);
  }
  return number;
}

async function bench(names: string[], effort: Effort, mustReach: boolean): Promise<number> {
  const outcome: Outcome = { rows: [], failures: [] };
  const cluster = await startCluster({ durable: true });
  try {
    for (const name of names) {
      if (interrupted) {
        throw new Error('interrupted');
      }
      console.log(`measuring ${name}`);
      try {
        outcome.rows.push(...((await FIGURES[name]?.(cluster.url, effort)) ?? []));
      } catch (error) {
        outcome.failures.push(`${name}: ${error instanceof Error ? error.message : error}`);
      }
    }
  } finally {
    await cluster.stop();
  }
  const processors = `${cpus().length} x ${cpus()[0]?.model}`;
  console.log(`\n${processors}, Node ${process.version}, PostgreSQL ${cluster.version}\n`);
  console.log(renderReport(outcome));
  return exitCodeOf(outcome, mustReach);
}
