import { once } from 'node:events';
import { expect, it } from 'vitest';
import { EndOfTurn } from '../../src/http/end-of-turn.ts';

/** What is put off to the end of a turn of the event loop. */

it('is done for all who put it off in that turn, in order, and not before it ends', async () => {
  const endOfTurn = new EndOfTurn();
  const done: string[] = [];
  const turns = new EventTarget();
  const putOff = (name: string) => endOfTurn.putOff(() => done.push(name));
  putOff('first');
  putOff('second');
  await Promise.resolve();
  process.nextTick(() => done.push('what is left of the turn'));
  endOfTurn.putOff(() => {
    putOff('one of the next turn');
    endOfTurn.putOff(() => turns.dispatchEvent(new Event('over')));
  });
  await once(turns, 'over');
  expect(done).toEqual(['what is left of the turn', 'first', 'second', 'one of the next turn']);
});
