import { expect, it } from 'vitest';
import { BackgroundJob } from '../../src/background-job.ts';

it('leaves no timer behind after it stops', async () => {
  const before = timers();
  const background = new BackgroundJob({
    work: async () => undefined,
    intervalMs: 3_600_000,
    onError: () => undefined,
  });
  await background.run();
  expect(timers()).toBe(before + 1);
  await background.stop();
  expect(timers()).toBe(before);
});

function timers(): number {
  return process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
}
