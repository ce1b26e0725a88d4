import { expect, it } from 'vitest';
import { Background } from '../../src/background.ts';

it('leaves no timer after it was stopped', async () => {
  const before = timers();
  const background = new Background({
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
