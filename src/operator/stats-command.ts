import { snapshot } from '../database/transaction.ts';
import { defineCommand } from './command.ts';
import { formatNumber } from './format.ts';
import { parseChoice, parseTime } from './options.ts';
import { type PeriodStats, readStats } from './report-store.ts';

const parseUnit = parseChoice('day', 'month');

export const statsCommand = defineCommand({
  name: 'stats',
  synopsis: '[--by day | month] [--since <time>] [--csv]',
  description:
    'counts payments, sats, recipients and mints by day (default: of 30 days) or by month (default: of 12 months), in UTC; --csv is for spreadsheets',
  options: { csv: 'flag', by: parseUnit, since: parseTime },
  run: async ({ db, clock }, { csv, by, since }) => {
    const nowMs = clock();
    const unit = by ?? 'day';
    const sinceMs = since ?? findFirstPeriod(unit, new Date(nowMs));
    const stats = await snapshot(db, (tx) => readStats(tx, unit, sinceMs));
    // A spreadsheet adds up the rows itself.
    const toCsv = (row: PeriodStats) => COLUMNS.map((name) => row[name]).join();
    const lines = csv
      ? [COLUMNS.join(), ...stats.slice(0, -1).map(toCsv)]
      : [COLUMNS.map(pad).join('  '), ...stats.map(toLine)];
    return { isSuccess: true, json: { nowMs, sinceMs, stats }, lines };
  },
});

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
