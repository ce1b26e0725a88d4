import { expect, it } from 'vitest';
import { EndOfTurn } from '../../src/http/end-of-turn.ts';

/** What is put off to the end of a turn of the event loop. */

it('is done for all who wait in that turn, in order, and not before it ends', async () => {
  const endOfTurn = new EndOfTurn();
  const done: string[] = [];
  const work = async (name: string) => {
    await endOfTurn.come();
    done.push(name);
  };
  const both = Promise.all([work('first'), work('second')]);
  await Promise.resolve();
  process.nextTick(() => done.push('what is left of the turn'));
  await both;
  expect(done).toEqual(['what is left of the turn', 'first', 'second']);
  await work('one of the next turn');
  expect(done.at(-1)).toBe('one of the next turn');
});
