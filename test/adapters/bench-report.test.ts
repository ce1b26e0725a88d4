import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';
import {
  type Bound,
  isWithinBound,
  loosenBound,
  type Measurement,
  type ResultRow,
} from '../../bench/harness/figure.ts';
import { exitCodeOf, renderReport } from '../../bench/harness/report.ts';

it('bench/run.ts rejects an unknown figure and lists the available ones', () => {
  const { status, stderr } = spawnSync(process.execPath, ['bench/run.ts', 'nothing-of-ours'], {
    encoding: 'utf8',
  });

  expect(status).toBe(1);
  expect(stderr).toContain('Unknown figure: nothing-of-ours');
  expect(stderr).toContain('Figures: start, idle-memory, discovery,');
});

it.each<[string, Bound, Measurement[]]>([
  ['a ratio that is too low', { minRatio: 0.6 }, [{ service: 59, floor: 100 }]],
  ['a ratio that is too high', { maxRatio: 1.2 }, [{ service: 1.3, floor: 1 }]],
  ['a value that is too high', { maxValue: 30 }, [{ service: 31 }]],
  [
    'a median that is too high',
    { maxValue: 30 },
    [{ service: 1 }, { service: 31 }, { service: 40 }],
  ],
])(
  'reports a missed bound for %s, and exits with 1 if --must-reach is set',
  (_case, bound, runs) => {
    const outcome = { rows: [createRow({ bound, runs })], failures: [] };

    expect(exitCodeOf(outcome, true)).toBe(1);
    expect(exitCodeOf(outcome, false)).toBe(0);
    expect(renderReport(outcome)).toContain('MISSED');
  },
);

it.each<[string, Bound, Measurement[]]>([
  ['a ratio', { minRatio: 0.6 }, [{ service: 60, floor: 100 }]],
  ['a value', { maxValue: 30 }, [{ service: 30 }, { service: 1 }, { service: 99 }]],
])('exits with 0 with --must-reach for %s at its bound', (_case, bound, runs) => {
  const outcome = { rows: [createRow({ bound, runs })], failures: [] };

  expect(exitCodeOf(outcome, true)).toBe(0);
  expect(renderReport(outcome)).toContain('reached');
});

it.each<[Bound, Measurement]>([
  [{ minRatio: 0.5 }, { service: 40, floor: 100 }],
  [{ maxRatio: 1 }, { service: 125, floor: 100 }],
])('reaches the loosened bound of %j with %j, and no less', (bound, run) => {
  const row = createRow({ bound, runs: [run] });
  expect([0.8, 0.81].map((factor) => isWithinBound(loosenBound(row, factor)))).toEqual([
    true,
    false,
  ]);
});

it('exits with 1 after a wrong response even if the figure reaches its bound', () => {
  const outcome = { rows: [createRow({ problems: ['wrong response: 500'] })], failures: [] };

  expect(exitCodeOf(outcome, false)).toBe(1);
  expect(renderReport(outcome)).toContain('PROBLEM: wrong response: 500');
});

it('exits with 1 if a figure could not be measured', () => {
  const outcome = { rows: [createRow({})], failures: ['sockets: EMFILE'] };

  expect(exitCodeOf(outcome, false)).toBe(1);
  expect(renderReport(outcome)).toContain('NOT MEASURED: sockets: EMFILE');
});

function createRow(row: Partial<ResultRow>): ResultRow {
  const runs = [{ service: 1 }];
  return { title: 'a figure', unit: 'ms', runs, bound: { maxValue: 1 }, problems: [], ...row };
}
