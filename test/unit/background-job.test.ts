import { expect, it } from 'vitest';
import { BackgroundJob } from '../../src/background-job.ts';

const ONE_HOUR_MS = 3_600_000;

it('clears its timer when it stops', async () => {
  const timerCountBefore = countTimers();
  const job = new BackgroundJob({
    work: async () => undefined,
    intervalMs: ONE_HOUR_MS,
    onError: () => undefined,
  });
  await job.run();
  expect(countTimers()).toBe(timerCountBefore + 1);
  await job.stop();
  expect(countTimers()).toBe(timerCountBefore);
});

function countTimers(): number {
  return process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
}
