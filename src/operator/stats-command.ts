import { parseArgs } from 'node:util';
import { snapshot } from '../database/transaction.ts';
import { disableTimeouts } from './archive/archive-store.ts';
import { type OperatorCommand, parseTime, renderReport, UsageError } from './command.ts';
import { formatNumber } from './format.ts';
import { type PeriodStats, readStats } from './report-store.ts';

export const statsCommand: OperatorCommand = {
  name: 'stats',
  usage: `  stats [--by day | month] [--since <time>] [--csv]
           counts payments, sats, recipients and mints by day (default: of 30 days) or by month
           (default: of 12 months), in UTC; --csv is for spreadsheets, --json for scripts
`,
  parse: (args) => {
    const { values } = parseArgs({
      args,
      options: {
        json: { type: 'boolean', default: false },
        csv: { type: 'boolean', default: false },
        by: { type: 'string', default: 'day' },
        since: { type: 'string' },
      },
    });
    const { by } = values;
    if (by !== 'day' && by !== 'month') {
      throw new UsageError(`--by must be day or month (got '${by}').`);
    }
    const givenSinceMs = parseTime('--since', values.since);
    return async ({ db, clock }) => {
      const nowMs = clock();
      const sinceMs = givenSinceMs ?? findFirstPeriod(by, new Date(nowMs));
      const stats = await snapshot(db, async (tx) => {
        await disableTimeouts(tx);
        return readStats(tx, by, sinceMs);
      });
      const lines = values.csv
        ? // A spreadsheet adds up the rows itself.
          [
            COLUMNS.join(),
            ...stats.slice(0, -1).map((row) => COLUMNS.map((name) => row[name]).join()),
          ]
        : [COLUMNS.map(pad).join('  '), ...stats.map(toLine)];
      return renderReport({ isSuccess: true, json: { nowMs, sinceMs, stats }, lines }, values.json);
    };
  },
};

const COLUMNS = ['period', 'payments', 'sat', 'recipients', 'mints'] as const;

function toLine({ period, ...counts }: PeriodStats): string {
  const values = COLUMNS.slice(1).map((name) => formatNumber(counts[name as keyof typeof counts]));
  return [period, ...values].map(pad).join('  ');
}

function pad(text: string, column: number): string {
  return column === 0 ? text.padEnd('2026-08-01'.length) : text.padStart('1,000,000,000'.length);
}

/** Returns the start of the first of 30 days or 12 months that end now. */
function findFirstPeriod(by: 'day' | 'month', now: Date): number {
  const [year, month, day] = [now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate()];
  return by === 'day' ? Date.UTC(year, month, day - 29) : Date.UTC(year, month - 11, 1);
}
