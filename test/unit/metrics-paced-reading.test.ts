import { expect, it, vi } from 'vitest';
import { PacedReading } from '../../src/metrics/paced-reading.ts';

const SECOND = 1_000;

it('reads once for all who ask at one moment, and not again for ten seconds', async () => {
  const { reading, read, pass } = paced(async () => {});
  expect(await Promise.all([reading.take(), reading.take()])).toEqual([
    { value: 1, isWell: true },
    { value: 1, isWell: true },
  ]);
  pass(9 * SECOND);
  expect(await reading.take()).toEqual({ value: 1, isWell: true });
  pass(SECOND);
  expect(await reading.take()).toEqual({ value: 2, isWell: true });
  expect(read).toHaveBeenCalledTimes(2);
});

it('leaves the database alone for longer after a reading that took long', async () => {
  const { reading, pass } = paced(async () => pass(2 * SECOND));
  await reading.take();
  pass(39 * SECOND);
  expect(await reading.take()).toEqual({ value: 1, isWell: true });
  pass(SECOND);
  expect(await reading.take()).toEqual({ value: 2, isWell: true });
});

it('tells what was read last where it fails, and that it is old', async () => {
  let isAway = false;
  const { reading, onError, pass } = paced(async () => {
    if (isAway) {
      throw new Error('away');
    }
  });
  await reading.take();
  isAway = true;
  pass(10 * SECOND);
  expect(await reading.take()).toEqual({ value: 1, isWell: false });
  expect(onError).toHaveBeenCalledWith(new Error('away'));
  isAway = false;
  pass(10 * SECOND);
  expect(await reading.take()).toEqual({ value: 3, isWell: true });
});

it('does not wait for a database that does not answer, and takes its answer when it comes', async () => {
  const answer = Promise.withResolvers<void>();
  const { reading, read } = paced(() => answer.promise, 0);
  expect(await reading.take()).toEqual({ value: null, isWell: false });
  expect(await reading.take()).toEqual({ value: null, isWell: false });
  answer.resolve();
  await reading.idle();
  expect(await reading.take()).toEqual({ value: 1, isWell: true });
  expect(read).toHaveBeenCalledOnce();
});

/** Reads how often it was asked, once `work` is done. */
function paced(work: () => Promise<void>, patienceMs?: number) {
  let nowMs = 0;
  let times = 0;
  const read = vi.fn(async () => {
    times += 1;
    const value = times;
    await work();
    return value;
  });
  const onError = vi.fn();
  const monotonicMs = () => nowMs;
  const pass = (timeMs: number) => {
    nowMs += timeMs;
  };
  const reading = new PacedReading({
    read,
    onError,
    monotonicMs,
    ...(patienceMs !== undefined && { patienceMs }),
  });
  return { reading, read, onError, pass };
}
