import { beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { showProgress } from '../../src/commands/show-progress.ts';

let shown: string[];
const terminal = {
  progress: (line: string) => void shown.push(line),
  end: () => void shown.push('(end)'),
};

beforeEach(() => {
  shown = [];
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
});

it('repeats the latest line every second', async () => {
  const work = Promise.withResolvers<string>();
  let tell: (line: string) => void = () => undefined;
  const showing = showProgress(terminal, (teller) => {
    tell = teller;
    return work.promise;
  });
  vi.advanceTimersByTime(5_000);
  expect(shown).toEqual([]);
  tell('one');
  vi.advanceTimersByTime(2_000);
  tell('two');
  vi.advanceTimersByTime(1_000);
  expect(shown).toEqual(['one', 'one', 'one', 'two', 'two']);
  work.resolve('done');
  expect(await showing).toBe('done');
  expect(vi.getTimerCount()).toBe(0);
});

it('ends the progress when the work fails', async () => {
  const failing = showProgress(terminal, async (tell) => {
    tell('one');
    throw new Error('broken');
  });
  await expect(failing).rejects.toThrow('broken');
  expect(shown).toEqual(['one', '(end)']);
  expect(vi.getTimerCount()).toBe(0);
});
