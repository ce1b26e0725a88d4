import { expect, it } from 'vitest';
import type { BoundedRow } from '../../bench/harness/figure.ts';
import { firstCause } from '../../bench/harness/first-cause.ts';
import { fellBehind } from '../../bench/harness/pace.ts';
import { problemsOf, problemsOfRatio, type ThroughputRun } from '../../bench/harness/throughput.ts';
import { isReliable, whyUnmeasured } from '../../bench/harness/verdict.ts';
import { withUnkept, wrongsIn } from '../../bench/harness/wrongs.ts';

const ROW: BoundedRow = {
  title: 'start',
  unit: 'ms',
  ours: 900,
  spread: null,
  atMost: 1000,
  notes: [],
  problems: [],
  run: {},
};

const IDLE_RUN: ThroughputRun = {
  value: 1000,
  cpuPerAnswerMs: 0.5,
  serverBusy: 0.5,
  generatorBusy: 0.5,
  mintBusy: 0.5,
  wrong: 0,
  firstWrong: null,
};

it('holds against a figure that it brought nothing, where it was asked for by its name', () => {
  expect(whyUnmeasured({ rows: [] }, true)).toEqual(expect.any(String));
  expect(whyUnmeasured({ rows: [] }, false)).toBeNull();
  expect(whyUnmeasured({ rows: [ROW] }, true)).toBeNull();
  expect(whyUnmeasured({ failure: 'no mint' }, false)).toBe('no mint');
});

it('trusts a figure that was measured without a problem, and was not left out by surprise', () => {
  expect(isReliable({ rows: [ROW] }, true)).toBe(true);
  expect(isReliable({ rows: [] }, false)).toBe(true);
  expect(isReliable({ rows: [] }, true)).toBe(false);
  expect(isReliable({ failure: 'no mint' }, false)).toBe(false);
  expect(isReliable({ rows: [ROW, { ...ROW, problems: ['there is no server'] }] }, true)).toBe(
    false,
  );
});

it('trusts no floor that does less than the service', () => {
  const run = (ours: number, floor: number) => ({ ours: { value: ours }, floor: { value: floor } });

  expect(problemsOfRatio([run(100, 90), run(101, 90), run(90, 100)])).toEqual([
    expect.stringContaining('the floor is disturbed, or none'),
  ]);
  expect(problemsOfRatio([run(100, 100), run(101, 90), run(90, 100)])).toEqual([]);
});

it.each([
  ['load generator', { generatorBusy: 0.96 }],
  ['mint', { mintBusy: 0.9 }],
])('trusts no rate where the %s was busier than the server', (who, busy) => {
  const run = { ...IDLE_RUN, ...busy };

  expect(problemsOf('floor', run)).toEqual([expect.stringContaining(`the ${who} was too busy`)]);
  expect(problemsOf('floor', { ...run, serverBusy: 0.9 })).toEqual([]);
  expect(problemsOf('floor', IDLE_RUN)).toEqual([]);
});

it('takes an invoice that is not in the database for a wrong answer', () => {
  const none = wrongsIn([]);

  expect(withUnkept(none, 1000, 1000)).toEqual({ wrong: 0, firstWrong: null });
  expect(withUnkept(none, 1000, 998)).toEqual({
    wrong: 2,
    firstWrong: 'of 1000 invoices, 998 are in the database',
  });
  expect(withUnkept({ wrong: 1, firstWrong: 'no invoice today' }, 1000, 998)).toEqual({
    wrong: 3,
    firstWrong: 'no invoice today',
  });
});

it('forgives a quote whose answer got lost', () => {
  const none = wrongsIn([]);

  expect(withUnkept(none, 1000, 1003)).toEqual(none);
});

it('trusts nobody who was too busy, or too late, for the pace that was asked for', () => {
  expect(fellBehind({ busy: 0.9, lateness: 0.02 })).toBe(false);
  expect(fellBehind({ busy: 0.91, lateness: 0 })).toBe(true);
  expect(fellBehind({ busy: 0.1, lateness: 0.03 })).toBe(true);
});

it('tells what went wrong first, whatever went wrong in the cleaning up after it', async () => {
  const fail = async () => {
    await using stack = new AsyncDisposableStack();
    stack.defer(() => Promise.reject(new Error('nothing to stop')));
    stack.defer(() => Promise.reject(new Error('nothing to close')));
    throw new Error('the mint is gone');
  };

  expect(firstCause(await fail().catch((error: unknown) => error))).toEqual(
    new Error('the mint is gone'),
  );
  expect(firstCause('text')).toBe('text');
});
