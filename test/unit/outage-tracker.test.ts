import { expect, it } from 'vitest';
import { OutageTracker } from '../../src/outage-tracker.ts';
import { TestClock } from '../helpers/test-clock.ts';

const SECOND_MS = 1_000;

it('reports one outage while some of the work succeeds and the other part fails', () => {
  const { clock, tracker } = createTracker();
  const failures: boolean[] = [];
  for (let count = 0; count < 20; count += 1) {
    failures.push(tracker.recordFailure());
    clock.advance(3 * SECOND_MS);
    expect(tracker.recordSuccess()).toBe(false);
  }
  expect(failures).toEqual([true, ...Array(19).fill(false)]);
  clock.advance(15 * SECOND_MS);
  expect(tracker.recordSuccess()).toBe(true);
  expect(tracker.recordSuccess()).toBe(false);
  expect(tracker.recordFailure()).toBe(true);
});

it('reports a new outage if the work succeeded long before the failure', () => {
  const { clock, tracker } = createTracker();
  tracker.recordFailure();
  tracker.recordSuccess();
  clock.advance(15 * SECOND_MS);
  expect(tracker.recordFailure()).toBe(true);
});

function createTracker() {
  const clock = new TestClock();
  return { clock, tracker: new OutageTracker(clock.now) };
}
