import { expect, it } from 'vitest';
import { OneByOne } from '../../src/usecases/one-by-one.ts';

/** Work of which one piece goes after another. */

const HOURS_MS = 3_600_000;

it('begins when what came before it is over, whatever came of that', async () => {
  const oneByOne = new OneByOne(HOURS_MS);
  const first = Promise.withResolvers<string>();
  const begun: string[] = [];
  const piece = (name: string, result: Promise<string>) =>
    oneByOne.run(() => {
      begun.push(name);
      return result;
    });
  const failing = piece('first', first.promise);
  const second = piece('second', Promise.resolve('two'));
  const third = piece('third', Promise.resolve('three'));
  await expect.poll(() => begun).toEqual(['first']);
  first.reject(new Error('it broke'));
  await expect(failing).rejects.toThrow('it broke');
  expect(await Promise.all([second, third])).toEqual(['two', 'three']);
  expect(begun).toEqual(['first', 'second', 'third']);
});

it('waits no longer than it may for what does not end', async () => {
  const oneByOne = new OneByOne(1);
  const held = Promise.withResolvers<void>();
  let isOver = false;
  const stuck = oneByOne.run(() => held.promise).then(() => (isOver = true));
  expect(await oneByOne.run(async () => 'gone ahead')).toBe('gone ahead');
  expect(await oneByOne.run(async () => 'gone ahead, too')).toBe('gone ahead, too');
  expect(isOver).toBe(false);
  held.resolve();
  await stuck;
});
