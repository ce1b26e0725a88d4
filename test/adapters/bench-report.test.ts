import { expect, it } from 'vitest';
import {
  type Bound,
  isWithinBound,
  loosenBound,
  type Measurement,
  type ResultRow,
} from '../../bench/harness/figure.ts';
import { exitCodeOf, renderReport } from '../../bench/harness/report.ts';

it.each<[string, Bound, Measurement[]]>([
  ['MISSED', { minRatio: 0.6 }, [{ service: 59, floor: 100 }]],
  ['reached', { minRatio: 0.6 }, [{ service: 60, floor: 100 }]],
  ['MISSED', { maxRatio: 1.2 }, [{ service: 1.3, floor: 1 }]],
  ['MISSED', { maxValue: 30 }, [{ service: 1 }, { service: 31 }, { service: 40 }]],
  ['reached', { maxValue: 30 }, [{ service: 30 }, { service: 1 }, { service: 99 }]],
])('reports "%s", and exits accordingly with --must-reach, for %j and %j', (text, bound, runs) => {
  const outcome = { rows: [createRow({ bound, runs })], failures: [] };
  expect(exitCodeOf(outcome, true)).toBe(text === 'MISSED' ? 1 : 0);
  expect(exitCodeOf(outcome, false)).toBe(0);
  expect(renderReport(outcome)).toContain(text);
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

it.each([
  ['PROBLEM: wrong response: 500', ['wrong response: 500'], []],
  ['NOT MEASURED: sockets: EMFILE', [], ['sockets: EMFILE']],
])('exits with 1 and reports "%s" even if all bounds are reached', (text, problems, failures) => {
  const outcome = { rows: [createRow({ problems })], failures };
  expect(exitCodeOf(outcome, false)).toBe(1);
  expect(renderReport(outcome)).toContain(text);
});

function createRow(row: Partial<ResultRow>): ResultRow {
  const runs = [{ service: 1 }];
  return { title: 'a figure', unit: 'ms', runs, bound: { maxValue: 1 }, problems: [], ...row };
}
