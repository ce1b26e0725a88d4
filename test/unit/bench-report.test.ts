import { describe, expect, it } from 'vitest';
import { compareTurns, failuresIn, type Turn } from '../../bench/harness/against.ts';
import { compare } from '../../bench/harness/compare.ts';
import {
  type BoundedRow,
  type ComparedRow,
  isReached,
  type Reach,
} from '../../bench/harness/figure.ts';
import { renderComparison, renderHead, renderTable } from '../../bench/harness/report.ts';

describe('a figure beside its floor', () => {
  it('is the median of all runs, and stands to it as in a pair of them', () => {
    const { ours, floor, ratio, standing } = row([
      [500, 1000],
      [640, 800],
      [900, 1200],
    ]);

    expect({ ours, floor, ratio }).toEqual({ ours: 640, floor: 1000, ratio: 0.75 });
    expect(standing).toEqual({ median: 0.75, lowest: 0.5, highest: 0.8 });
  });

  it.each([
    ['has to keep up with it', { ratioAtLeast: 0.6 }, [599, 600]],
    ['may take so many times as long', { ratioAtMost: 1.2 }, [1201, 1200]],
    ['may take so much longer', { overFloorAtMost: 20 }, [1021, 1020]],
  ])('%s', (_, toReach, [missed = 0, met = 0]) => {
    expect(isReached(row([[missed, 1000]], toReach))).toBe(false);
    expect(isReached(row([[met, 1000]], toReach))).toBe(true);
  });

  it('is as far from it as in a pair of runs, where that is what is asked', () => {
    const { standing } = row(
      [
        [61, 60],
        [64, 58],
        [75, 72],
      ],
      { overFloorAtMost: 5 },
    );

    expect(standing).toEqual({ median: 3, lowest: 1, highest: 6 });
  });

  it('is nothing to reach where nothing is asked of it', () => {
    expect(isReached(row([[1, 1000]], null))).toBeNull();
  });
});

it('holds a figure without a floor to its bound', () => {
  expect(isReached(bounded(1000))).toBe(true);
  expect(isReached(bounded(1001))).toBe(false);
  expect(isReached({ ...bounded(1001), atMost: null })).toBeNull();
});

describe('the table', () => {
  it('says it where each side was measured too seldom for a median', () => {
    expect(renderHead('2 cores', 3)).toBe('2 cores');
    expect(renderHead('2 cores', 2).split('\n')).toEqual([
      '2 cores',
      expect.stringContaining('runs of each side: 2'),
    ]);
  });

  it('says what each figure has to reach, and whether it does', () => {
    const table = renderTable([
      row([[550, 1000]]),
      row([[64, 58.5]], { overFloorAtMost: 5 }, 'ms'),
      { ...bounded(874.5), spread: { median: 874.5, lowest: 850, highest: 1020 } },
    ]);

    expect(table.split('\n').map((line) => line.trimEnd())).toEqual([
      'figure        ours      floor   to floor             of each run          to reach',
      '-------   --------   --------   --------   ---------------------   ---------------   -----------',
      'invoice     550 /s   1,000 /s       0.55            0.55 to 0.55      ratio >= 0.6   NOT REACHED',
      'invoice    64.0 ms    58.5 ms   +5.50 ms    +5.50 ms to +5.50 ms   floor + 5.00 ms   NOT REACHED',
      'start     874.5 ms                         850.0 ms to 1020.0 ms      <= 1000.0 ms       reached',
    ]);
  });

  it('puts the notes and the problems of a figure below it', () => {
    const noted = { ...bounded(900), notes: ['850 to 950 ms'], problems: ['there is no server'] };

    expect(renderTable([noted]).split('\n').slice(-2)).toEqual([
      '    850 to 950 ms',
      '    PROBLEM: there is no server',
    ]);
  });
});

describe('two commits', () => {
  it('are compared turn by turn', () => {
    const [comparison] = compareTurns([
      turn([row([[600, 1000]])], [row([[500, 1000]])]),
      turn([row([[900, 1000]])], [row([[600, 1000]])]),
      turn([row([[700, 1000]])], [row([[700, 1000]])]),
    ]);

    expect(comparison).toEqual({
      title: 'invoice',
      unit: '/s',
      here: { ours: 700, ratio: 0.7, problems: [] },
      there: { ours: 600, ratio: 0.6, problems: [] },
      change: { median: 1.2, lowest: 1, highest: 1.5 },
    });
  });

  it('are told of in one line for each figure, with the change and both ratios', () => {
    const table = renderComparison(
      compareTurns([turn([row([[600, 1000]]), bounded(80)], [row([[500, 1000]]), bounded(100)])]),
    );

    expect(table.split('\n').slice(2)).toEqual([
      'invoice     500 /s    600 /s    +20 %   +20 % to +20 %          0.50         0.60',
      'start     100.0 ms   80.0 ms    -20 %   -20 % to -20 %                           ',
    ]);
  });

  it('say it where one of them could not be measured, and why', () => {
    const turns = [
      {
        figure: 'invoice',
        here: { rows: [row([[600, 1000]])] },
        there: { failure: 'no such thing' },
      },
      {
        figure: 'invoice',
        here: { rows: [row([[600, 1000]])] },
        there: { failure: 'no such thing' },
      },
    ];

    expect(renderComparison(compareTurns(turns))).toContain('not measured');
    expect(failuresIn(turns, false)).toEqual(['invoice, there: no such thing']);
  });

  it('say it where a figure that was asked for by its name was left out', () => {
    const turns = [turn([], [])];

    expect(failuresIn(turns, true)).toEqual([
      'any, here: left out on this machine',
      'any, there: left out on this machine',
    ]);
    expect(failuresIn(turns, false)).toEqual([]);
  });

  it('have the problems of either in the table', () => {
    const wrong = { ...bounded(100), problems: ['3 wrong answers'] };

    const table = renderComparison(compareTurns([turn([wrong], [bounded(100)])]));

    expect(table).toContain('    PROBLEM: here, 3 wrong answers');
    expect(table).not.toContain('PROBLEM: there');
  });
});

/** @param pairs of ours and the floor's, one for each run */
function row(
  pairs: [number, number][],
  toReach: Reach | null = { ratioAtLeast: 0.6 },
  unit: '/s' | 'ms' = '/s',
): ComparedRow {
  return compare(
    { title: 'invoice', unit, toReach, notes: [], problems: [] },
    pairs.map(([ours, floor]) => ({ ours: { value: ours }, floor: { value: floor } })),
  );
}

function bounded(ours: number): BoundedRow {
  return {
    title: 'start',
    unit: 'ms',
    ours,
    spread: null,
    atMost: 1000,
    notes: [],
    problems: [],
    run: {},
  };
}

function turn(here: (ComparedRow | BoundedRow)[], there: (ComparedRow | BoundedRow)[]): Turn {
  return { figure: 'any', here: { rows: here }, there: { rows: there } };
}
