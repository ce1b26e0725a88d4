import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';
import type { Bound, Row, Run } from '../../bench/harness/figure.ts';
import { exitCodeOf, renderReport } from '../../bench/harness/report.ts';

it.each([
  [['nothing-of-ours'], 'Unknown figure: nothing-of-ours'],
  [['--runs', '0', 'start'], '--runs must be a whole number of at least 1'],
])('refuses %j, and names the figures that exist', (args, message) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['bench/run.ts', ...args], {
    encoding: 'utf8',
  });

  expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
  expect(stderr).toContain(message);
  expect(stderr).toContain('Figures: start, idle-memory, discovery,');
});

it.each<[string, Bound, Run[]]>([
  ['a ratio that is too low', { ratioAtLeast: 0.6 }, [{ nutpost: 59, floor: 100 }]],
  ['a ratio that is too high', { ratioAtMost: 1.2 }, [{ nutpost: 1.3, floor: 1 }]],
  ['a value that is too high', { atMost: 30 }, [{ nutpost: 31 }]],
  ['a median that is too high', { atMost: 30 }, [{ nutpost: 1 }, { nutpost: 31 }, { nutpost: 40 }]],
])('fails with --must-reach for %s', (_, bound, runs) => {
  const outcome = { rows: [rowOf({ bound, runs })], failures: [] };

  expect(exitCodeOf(outcome, true)).toBe(1);
  expect(exitCodeOf(outcome, false)).toBe(0);
  expect(renderReport(outcome)).toContain('MISSED');
});

it.each<[string, Bound, Run[]]>([
  ['a ratio', { ratioAtLeast: 0.6 }, [{ nutpost: 60, floor: 100 }]],
  ['a value', { atMost: 30 }, [{ nutpost: 30 }, { nutpost: 1 }, { nutpost: 99 }]],
])('passes with --must-reach for %s at its bound', (_, bound, runs) => {
  const outcome = { rows: [rowOf({ bound, runs })], failures: [] };

  expect(exitCodeOf(outcome, true)).toBe(0);
  expect(renderReport(outcome)).toContain('reached');
});

it('fails if a response was wrong, whatever the figure', () => {
  const outcome = { rows: [rowOf({ problems: ['wrong response: 500'] })], failures: [] };

  expect(exitCodeOf(outcome, false)).toBe(1);
  expect(renderReport(outcome)).toContain('PROBLEM: wrong response: 500');
});

it('fails if a figure could not be measured', () => {
  const outcome = { rows: [rowOf({})], failures: ['sockets: EMFILE'] };

  expect(exitCodeOf(outcome, false)).toBe(1);
  expect(renderReport(outcome)).toContain('NOT MEASURED: sockets: EMFILE');
});

function rowOf(row: Partial<Row>): Row {
  const runs = [{ nutpost: 1 }];
  return { title: 'a figure', unit: 'ms', runs, bound: { atMost: 1 }, problems: [], ...row };
}
