import { expect, it } from 'vitest';
import { PartlyRecorded, type Recorded, recordLots } from '../../src/usecases/record-lots.ts';

/** The lots of what a mint said, each recorded in a transaction of its own. */

const NOTHING: Recorded = { news: [], finished: [] };
const BEFORE: Recorded = { news: [], finished: ['before'] };

const BROKEN = new Error('the connection broke');

it('are recorded in order, no more at a time than there may be', async () => {
  const begun: string[] = [];
  const held = holding();
  const recording = recordLots(['a', 'b', 'c'], 2, NOTHING, (lot) => {
    begun.push(lot);
    return held.until(lot);
  });
  expect(begun).toEqual(['a', 'b']);
  held.end('b', recorded('b'));
  await expect.poll(() => begun).toEqual(['a', 'b', 'c']);
  held.end('c', recorded('c'));
  held.end('a', recorded('a'));
  expect((await recording).finished.toSorted()).toEqual(['a', 'b', 'c']);
});

it('of which one fails are over only when none is under way, and what was recorded is told', async () => {
  const begun: string[] = [];
  const held = holding();
  let isOver = false;
  const recording = recordLots(['a', 'b', 'c'], 2, NOTHING, (lot) => {
    begun.push(lot);
    return held.until(lot);
  }).catch((error: unknown) => {
    isOver = true;
    return error;
  });
  held.fail('a');
  await new Promise((resolve) => setImmediate(resolve));
  expect(isOver).toBe(false);
  held.end('b', recorded('b'));
  const failure = await recording;
  expect(failure).toBeInstanceOf(PartlyRecorded);
  expect(failure).toMatchObject({ recorded: recorded('b'), cause: BROKEN });
  expect(begun).toEqual(['a', 'b']);
});

it('of which all fail fail with what was wrong', async () => {
  await expect(recordLots(['a'], 2, NOTHING, () => Promise.reject(BROKEN))).rejects.toBe(BROKEN);
  await expect(
    recordLots(['a', 'b'], 2, NOTHING, () => Promise.reject(BROKEN)),
  ).rejects.toMatchObject({
    errors: [BROKEN, BROKEN],
  });
});

it('may be none: then what was recorded before is all, which is told too where one fails', async () => {
  const fail = () => Promise.reject(BROKEN);
  await expect(recordLots([], 2, BEFORE, fail)).resolves.toEqual(BEFORE);
  await expect(recordLots(['a'], 2, BEFORE, fail)).rejects.toMatchObject({ recorded: BEFORE });
});

function recorded(quoteId: string): Recorded {
  return { news: [{ quoteId, state: 'PAID' }], finished: [quoteId] };
}

/** Recordings that end when they are told to. */
function holding() {
  const ends = new Map<string, PromiseWithResolvers<Recorded>>();
  return {
    until: (lot: string) => {
      const end = Promise.withResolvers<Recorded>();
      ends.set(lot, end);
      return end.promise;
    },
    end: (lot: string, result: Recorded) => ends.get(lot)?.resolve(result),
    fail: (lot: string) => ends.get(lot)?.reject(BROKEN),
  };
}
