import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeEach, expect, it } from 'vitest';
import { atEndOfTurn } from '../../src/http/end-of-turn.ts';

/** What is put off to the end of a turn of the event loop. */

beforeEach(() => nextTurn());

it('is done for all who put it off in that turn, in order, and not before it ends', async () => {
  const done: string[] = [];
  const wait = async (name: string) => {
    await new Promise<void>(atEndOfTurn);
    done.push(name);
  };
  const both = Promise.all([wait('first'), wait('second')]);
  await Promise.resolve();
  process.nextTick(() => done.push('what is left of the turn'));
  await both;
  expect(done).toEqual(['what is left of the turn', 'first', 'second']);
});

it('is done before the next turn where what was put off puts it off again', async () => {
  const done: string[] = [];
  const checkAndAnswer = async (name: string) => {
    await new Promise<void>(atEndOfTurn);
    done.push(`${name} is checked`);
    await Promise.resolve().then(() => undefined);
    await new Promise<void>(atEndOfTurn);
    done.push(`${name} is answered`);
  };
  const both = Promise.all([checkAndAnswer('first'), checkAndAnswer('second')]);
  // Behind what was put off until now.
  setImmediate(() => done.push('the next turn'));
  await both;
  expect(done).toEqual([
    'first is checked',
    'second is checked',
    'first is answered',
    'second is answered',
  ]);
});

it('does not wait for the end of a turn in which very many put it off', async () => {
  const done: number[] = [];
  const putOff = (each: number) => atEndOfTurn(() => done.push(each));
  const many = Array.from({ length: 64 }, (_, index) => index);
  many.slice(0, -1).forEach(putOff);
  expect(done).toEqual([]);
  putOff(63);
  expect(done).toEqual(many);
});
