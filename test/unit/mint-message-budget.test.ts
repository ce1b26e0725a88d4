import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ElasticRateLimit } from '../../src/demo/test-mint/rate-limit.ts';
import { MessageBudget } from '../../src/mint/message-budget.ts';

const NOW = 1_800_000_000_000;

it('lets the first messages go at once, then one at a time', () => {
  const budget = budgetOf(3);
  expect([1, 2, 3].map(() => budget.take(NOW))).toEqual([0, 0, 0]);
  expect(budget.take(NOW)).toBe(5_000);
  expect(budget.take(NOW + 2_000)).toBe(3_000);
  expect(budget.take(NOW + 5_000)).toBe(0);
  expect(budget.take(NOW + 5_000)).toBe(5_000);
});

it('saves no more than the burst', () => {
  const budget = budgetOf(2);
  budget.take(NOW);
  const later = NOW + 3_600_000;
  expect([1, 2].map(() => budget.take(later))).toEqual([0, 0]);
  expect(budget.take(later)).toBe(5_000);
});

it('is not confused by a clock that is set back', () => {
  const budget = budgetOf(1);
  expect(budget.take(NOW)).toBe(0);
  expect(budget.take(NOW - 60_000)).toBe(5_000);
  expect(budget.take(NOW - 55_000)).toBe(0);
});

it('tells what the wait is without taking anything', () => {
  const budget = budgetOf(1);
  expect([budget.waitMs(NOW), budget.waitMs(NOW), budget.take(NOW)]).toEqual([0, 0, 0]);
  expect([budget.waitMs(NOW), budget.waitMs(NOW + 5_000)]).toEqual([5_000, 0]);
});

it('gives no more than eighteen messages in any minute, whenever they are asked for', () => {
  const pauses = fc.array(fc.integer({ min: 0, max: 12_000 }), { minLength: 100, maxLength: 300 });
  fc.assert(
    fc.property(pauses, (pausesMs) => {
      const budget = budgetOf(6);
      const taken: number[] = [];
      let now = NOW;
      for (const pauseMs of pausesMs) {
        now += pauseMs;
        if (budget.take(now) === 0) {
          taken.push(now);
        }
      }
      for (const first of taken) {
        const inOneMinute = taken.filter((at) => at >= first && at < first + 60_000);
        expect(inOneMinute.length).toBeLessThanOrEqual(18);
      }
    }),
  );
});

it('tells how long several messages have to wait that are to go together', () => {
  const budget = budgetOf(2);
  expect(budget.waitMs(NOW, 2)).toBe(0);
  budget.take(NOW);
  expect([budget.waitMs(NOW), budget.waitMs(NOW, 2)]).toEqual([0, 5_000]);
});

describe('after a mint has refused a message', () => {
  it('is silent until the minute of the mint is over, and some', () => {
    const budget = budgetOf(6);
    budget.refused(NOW);
    expect(budget.take(NOW)).toBe(65_000);
    expect(budget.take(NOW + 64_999)).toBe(1);
    budget.refused(NOW + 2_000);
    expect(budget.take(NOW + 66_999)).toBe(1);
    expect(budget.take(NOW + 67_000)).toBe(0);
  });

  it('lets sixteen messages go in a run, farther and farther apart, and then waits for quiet', () => {
    const { budget, now: startedAt } = restedBudget();
    const gaps: number[] = [];
    let now = startedAt;
    budget.take(now);
    for (let message = 2; message <= 17; message += 1) {
      gaps.push(budget.waitMs(now));
      now += budget.waitMs(now);
      expect(budget.take(now)).toBe(0);
    }
    expect(gaps.slice(0, 6)).toEqual([834, 1_667, 2_500, 3_334, 4_167, 5_000]);
    expect(gaps.slice(6, 15)).toEqual(Array.from({ length: 9 }, () => 5_000));
    expect(gaps.slice(15)).toEqual([61_000]);
    expect(budget.waitMs(now)).toBe(834);
  });

  it('begins a new run after a quiet minute in the middle of one, and not before', () => {
    for (const [quietMs, left] of [
      [60_999, 11],
      [61_000, 16],
    ] as const) {
      const { budget, now } = restedBudget();
      const fifthAt = takeEach(budget, now, 5).at(-1) ?? 0;
      const taken = takeEach(budget, fifthAt + quietMs, 20);
      const runEnd = taken.findIndex(
        (at, index) => index > 0 && at - (taken[index - 1] ?? 0) > 5_000,
      );
      expect(runEnd).toBe(left);
    }
  });

  it('counts the quiet from the last answer of the mint', () => {
    const { budget, now } = restedBudget();
    const lastAt = takeEach(budget, now, 16).at(-1) ?? 0;
    budget.answered(lastAt + 3_000);
    expect(budget.waitMs(lastAt + 3_000)).toBe(61_000);
  });

  it('keeps two messages together that are of one piece', () => {
    const { budget, now } = restedBudget();
    const lastAt = takeEach(budget, now, 15).at(-1) ?? 0;
    expect(budget.waitMs(lastAt)).toBe(5_000);
    expect(budget.waitMs(lastAt, 2)).toBe(61_000);
  });

  it('is not confused by a clock that is set back', () => {
    const budget = budgetOf(6);
    budget.refused(NOW);
    const earlier = NOW - 3_600_000;
    expect(budget.waitMs(earlier)).toBe(65_000);
    const startedAt = earlier + 65_000;
    const lastAt = takeEach(budget, startedAt, 16).at(-1) ?? 0;
    expect(budget.waitMs(lastAt - 3_600_000)).toBe(61_000);
  });

  it('is never refused again by a mint that counts as Nutshell does', () => {
    const pauses = fc.array(fc.integer({ min: 0, max: 70_000 }), {
      minLength: 100,
      maxLength: 300,
    });
    fc.assert(
      fc.property(pauses, (pausesMs) => {
        const mint = new ElasticRateLimit();
        const { budget, now: startedAt } = restedBudget();
        let now = startedAt;
        for (const pauseMs of pausesMs) {
          now += pauseMs;
          if (budget.take(now) === 0) {
            expect(mint.admits('socket', 20, now)).toBe(true);
          }
        }
      }),
    );
  });
});

function budgetOf(burst: number): MessageBudget {
  return new MessageBudget({ burst, refillMs: 5_000, refusalRestMs: 65_000, quietMs: 61_000 });
}

/** After a refusal and the rest that follows. */
function restedBudget(): { budget: MessageBudget; now: number } {
  const budget = budgetOf(6);
  budget.refused(NOW);
  return { budget, now: NOW + 65_000 };
}

/** Takes so many messages, each as soon as it may go; returns when each went. */
function takeEach(budget: MessageBudget, startAt: number, count: number): number[] {
  let now = startAt;
  return Array.from({ length: count }, () => {
    now += budget.waitMs(now);
    expect(budget.take(now)).toBe(0);
    return now;
  });
}
