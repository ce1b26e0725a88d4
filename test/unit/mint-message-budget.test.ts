import fc from 'fast-check';
import { expect, it } from 'vitest';
import { MessageBudget } from '../../src/mint/message-budget.ts';

const NOW = 1_800_000_000_000;

it('lets the first messages go at once, then one at a time', () => {
  const budget = new MessageBudget({ burst: 3, refillMs: 5_000 });
  expect([1, 2, 3].map(() => budget.take(NOW))).toEqual([0, 0, 0]);
  expect(budget.take(NOW)).toBe(5_000);
  expect(budget.take(NOW + 2_000)).toBe(3_000);
  expect(budget.take(NOW + 5_000)).toBe(0);
  expect(budget.take(NOW + 5_000)).toBe(5_000);
});

it('saves no more than the burst', () => {
  const budget = new MessageBudget({ burst: 2, refillMs: 5_000 });
  budget.take(NOW);
  const later = NOW + 3_600_000;
  expect([1, 2].map(() => budget.take(later))).toEqual([0, 0]);
  expect(budget.take(later)).toBe(5_000);
});

it('is not confused by a clock that is set back', () => {
  const budget = new MessageBudget({ burst: 1, refillMs: 5_000 });
  expect(budget.take(NOW)).toBe(0);
  expect(budget.take(NOW - 60_000)).toBe(5_000);
  expect(budget.take(NOW - 55_000)).toBe(0);
});

it('tells what the wait is without taking anything', () => {
  const budget = new MessageBudget({ burst: 1, refillMs: 5_000 });
  expect([budget.waitMs(NOW), budget.waitMs(NOW), budget.take(NOW)]).toEqual([0, 0, 0]);
  expect([budget.waitMs(NOW), budget.waitMs(NOW + 5_000)]).toEqual([5_000, 0]);
});

it('gives no more than eighteen messages in any minute, whenever they are asked for', () => {
  const pauses = fc.array(fc.integer({ min: 0, max: 12_000 }), { minLength: 100, maxLength: 300 });
  fc.assert(
    fc.property(pauses, (pausesMs) => {
      const budget = new MessageBudget({ burst: 6, refillMs: 5_000 });
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
