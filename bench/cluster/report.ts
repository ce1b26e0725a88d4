import { percentile } from '../harness/statistics.ts';
import type { LoadResult } from './load-process.ts';

export interface ClusterReport {
  paymentsPerSecond: number;
  paymentCount: number;
  /** From the first payment until the last one was complete. */
  seconds: number;
  load: LoadResult;
  /** CPU time during the load, by part. */
  cpuMs: ReadonlyMap<string, number>;
  /** CPU time of the whole machine during the load. */
  machineCpuMs: number;
  memoryMb: ReadonlyMap<string, number>;
  walBytes: number;
  /** Pages that PostgreSQL wrote completely into the WAL, because they changed first after a checkpoint. */
  walPages: number;
  problems: readonly string[];
}

const PERCENTILES = [0.5, 0.95, 0.99, 1];

/** Renders tables in Markdown. */
export function renderClusterReport(report: ClusterReport): string {
  const { load, seconds, paymentsPerSecond, paymentCount, walBytes, walPages } = report;
  const partsMs = [...report.cpuMs.values()].reduce((sum, cpuMs) => sum + cpuMs, 0);
  const restMs = report.machineCpuMs - partsMs;
  const kilobytes = (bytes: number) => (bytes / 1024).toFixed(1);
  return [
    renderTable(
      ['Latency in ms', 'p50', 'p95', 'p99', 'largest'],
      [
        ['invoice, through HAProxy', ...renderPercentiles(load.invoicesMs)],
        ['update, from the payment at the mint', ...renderPercentiles(load.updatesMs)],
        ['list of 50, on a new connection, after the update', ...renderPercentiles(load.listsMs)],
        ['update, from the issue at the mint', ...renderPercentiles(load.issueUpdatesMs)],
        ['start of a payment, after its planned time', ...renderPercentiles(load.delaysMs)],
      ],
    ),
    renderTable(
      ['Part', 'CPU, cores', 'CPU ms per payment', 'memory, MB (PSS)'],
      [
        ...[...report.cpuMs].map(([name, cpuMs]) => [
          name,
          ...renderCpu(cpuMs, seconds, paymentCount),
          (report.memoryMb.get(name) ?? 0).toFixed(0),
        ]),
        ['kernel threads and other programs', ...renderCpu(restMs, seconds, paymentCount), ''],
      ],
    ),
    renderTable(
      ['Payments and WAL', ''],
      [
        ['payments', `${paymentCount.toLocaleString('en')} at ${paymentsPerSecond} /s`],
        ['first payment to last update', `${seconds.toFixed(0)} s`],
        ['payments with all updates', load.issueUpdatesMs.length.toLocaleString('en')],
        ['payments missing in the list after the update', String(load.missingInList)],
        ['WAL per payment', `${kilobytes(walBytes / paymentCount)} KB`],
        ['WAL per second', `${kilobytes(walBytes / seconds)} KB`],
        ['full-page images per payment', (walPages / paymentCount).toFixed(2)],
      ],
    ),
    ...listProblems(report),
  ].join('\n\n');
}

/** Describes everything that must not happen. */
export function listProblems({ load, problems }: ClusterReport): string[] {
  return [
    ...(load.missingInList > 0 ? [`PROBLEM: ${load.missingInList} lists lacked a payment`] : []),
    ...Object.entries(load.problems).map(([problem, count]) => `PROBLEM: ${count} x ${problem}`),
    ...problems.map((problem) => `PROBLEM: ${problem}`),
  ];
}

/** Adds up the results of several load generators. */
export function mergeResults(results: readonly LoadResult[]): LoadResult {
  const problems: Record<string, number> = {};
  for (const [problem, count] of results.flatMap((result) => Object.entries(result.problems))) {
    problems[problem] = (problems[problem] ?? 0) + count;
  }
  return {
    invoicesMs: results.flatMap(({ invoicesMs }) => invoicesMs),
    updatesMs: results.flatMap(({ updatesMs }) => updatesMs),
    listsMs: results.flatMap(({ listsMs }) => listsMs),
    issueUpdatesMs: results.flatMap(({ issueUpdatesMs }) => issueUpdatesMs),
    delaysMs: results.flatMap(({ delaysMs }) => delaysMs),
    missingInList: results.reduce((sum, { missingInList }) => sum + missingInList, 0),
    problems,
  };
}

function renderPercentiles(valuesMs: readonly number[]): string[] {
  return PERCENTILES.map((share) =>
    valuesMs.length === 0 ? '' : percentile(valuesMs, share).toFixed(1),
  );
}

function renderCpu(cpuMs: number, seconds: number, paymentCount: number): string[] {
  return [(cpuMs / 1000 / seconds).toFixed(2), (cpuMs / paymentCount).toFixed(2)];
}

function renderTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = header.map((_, column) =>
    Math.max(...[header, ...rows].map((cells) => cells[column]?.length ?? 0), 3),
  );
  const renderRow = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`;
  const line = `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`;
  return [renderRow(header), line, ...rows.map(renderRow)].join('\n');
}
