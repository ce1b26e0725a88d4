import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { orderOfTurn } from '../../src/domain/check-turns.ts';
import type { QuoteObservation } from '../../src/domain/quote.ts';
import type { CheckQuotesAnswer, ReadQuoteAnswer } from '../../src/mint/mint-client.ts';
import { PollRound } from '../../src/watcher/poll-round.ts';

const MINT = 'https://mint.example';
const HOUR_MS = 60 * 60_000;

/** Thousands of turns each: on a slow machine some fewer runs, and no endless shrinking. */
const PROPERTY = { numRuns: 20, interruptAfterTimeLimit: 2_500 };

describe('a round of polling', () => {
  let mint: ScriptedMint;
  let round: PollRound;

  beforeEach(() => {
    mint = new ScriptedMint();
    round = new PollRound(MINT, mint, () => mint.nowMs);
  });

  it('asks for all that is due in one batch', async () => {
    const { observations } = await round.askTogether(['a', 'b', 'c'], 1000);
    expect(observations.map((each) => each.quoteId)).toEqual(['a', 'b', 'c']);
    expect(mint.batches).toEqual([['a', 'b', 'c']]);
  });

  it('never asks for more at once than the mint takes', async () => {
    await round.askTogether(ids(250), 40);
    expect(mint.batches[0]).toHaveLength(40);
  });

  it('grows its batches while all is well', async () => {
    for (let turn = 0; turn < 5; turn += 1) {
      await round.askTogether(ids(1000), 1000);
    }
    expect(mint.batches.map((batch) => batch.length)).toEqual([100, 200, 400, 800, 1000]);
  });

  it('halves a batch that the mint does not answer in time, until it does', async () => {
    mint.check = (asked) =>
      asked.length > 30 ? { outcome: 'unavailable', reason: 'timeout' } : found(asked);
    const seen = new Set<string>();
    for (let turn = 0; turn < 20 && seen.size < 100; turn += 1) {
      const { observations } = await round.askTogether(
        ids(100).filter((id) => !seen.has(id)),
        1000,
      );
      for (const { quoteId } of observations) {
        seen.add(quoteId);
      }
    }
    expect(seen.size).toBe(100);
  });

  it('finds the one id that spoils a batch, and asks for it alone from then on', async () => {
    mint.check = (asked) => (asked.includes('id-37') ? REFUSED : found(asked));
    mint.read = () => ({ outcome: 'not_found' });
    const seen = new Set<string>();
    for (let turn = 0; turn < 40 && seen.size < 100; turn += 1) {
      const due = ids(100).filter((id) => !seen.has(id));
      for (const result of [await round.askTogether(due, 100), await round.askAlone(due)]) {
        for (const { quoteId } of result.observations) {
          seen.add(quoteId);
        }
      }
    }
    expect(seen.size).toBe(100);
    mint.batches.length = 0;
    await round.askTogether(ids(100), 100);
    expect(mint.batches.flat()).not.toContain('id-37');
  });

  it('finds a bad id in one class of quotes while other classes take turns with it', async () => {
    const bad = new Set(['id-250']);
    spoilBatches(mint, bad);
    const waiting = classesOf(ids(300), (index) => Math.floor(index / 100));
    expect(await turnsUntilSeen(waiting, 400)).toBeLessThan(40);
  });

  it('goes on with other quotes while it looks for a bad id', async () => {
    spoilBatches(mint, new Set(['id-0']));
    const seen = new Set<string>();
    for (let turn = 0; turn < 4; turn += 1) {
      const due = ids(600).filter((id) => !seen.has(id));
      for (const { quoteId } of (await round.askTogether(due, 100)).observations) {
        seen.add(quoteId);
      }
    }
    expect(seen.size).toBeGreaterThanOrEqual(100);
  });

  it('gives up on a suspect that the mint cannot answer for, and goes on with the others', async () => {
    spoilBatches(mint, new Set(['b']));
    await round.askTogether(['a', 'b', 'c', 'd'], 100);
    mint.check = (asked) =>
      asked.includes('a') ? { outcome: 'unavailable', reason: 'status 500' } : found(asked);
    const due = ['a', 'b', 'c', 'd'];
    await round.askTogether(due, 100);
    expect((await round.askTogether(due, 100)).unanswered).toEqual(['a']);
    mint.batches.length = 0;
    await round.askTogether(['b', 'c', 'd'], 100);
    await round.askTogether(['b', 'c', 'd'], 100);
    expect(mint.batches.flat()).not.toContain('a');
  });

  it('leaves the others their turn where it could not be used', async () => {
    spoilBatches(mint, new Set(['bad']));
    const due = ['bad', ...ids(400)];
    await round.askTogether(due, 100);
    await round.askTogether(due, 100);
    await round.askTogether(due, 100);
    mint.check = () => ({ outcome: 'rate_limited', retryAfterMs: 1000 });
    await round.askTogether(due, 100);
    mint.check = found;
    expect((await round.askTogether(due, 100)).observations).toHaveLength(100);
  });

  it('does not ask again for a suspect that is finished', async () => {
    spoilBatches(mint, new Set(['bad']));
    await round.askTogether(['a', 'bad', 'b'], 100);
    round.forget(['a', 'bad', 'b']);
    mint.batches.length = 0;
    await round.askTogether([], 100);
    expect(mint.batches).toEqual([]);
  });

  it('answers for all good ids within bounded time, wherever any number of bad ones are', async () => {
    await fc.assert(
      fc.asyncProperty(crowds(1_000), async (crowd) => {
        mint = new ScriptedMint();
        round = new PollRound(MINT, mint, () => mint.nowMs);
        spoilBatches(mint, crowd.bad);
        const good = [...crowd.waiting.keys()].filter((id) => !crowd.bad.has(id));
        // Each class is first in one turn in four, others than suspects are asked in one of three.
        const forAll = (12 * crowd.waiting.size) / Math.min(crowd.maxBatchSize, 100);
        // Twelve batches, from 1,000 ids down to one, in two turns of three.
        const forSearches = 18 * crowd.bad.size;
        const bound = Math.ceil(20 + forAll + forSearches);
        const turns = await turnsUntilSeen(crowd.waiting, bound, crowd.maxBatchSize, good);
        expect(turns).toBeLessThan(bound);
      }),
      PROPERTY,
    );
  });

  it('spoils no batch any more once each bad id was found', async () => {
    await fc.assert(
      fc.asyncProperty(crowds(60), async (crowd) => {
        mint = new ScriptedMint();
        round = new PollRound(MINT, mint, () => mint.nowMs);
        spoilBatches(mint, crowd.bad);
        await turnsUntilSeen(crowd.waiting, 10_000, crowd.maxBatchSize);
        mint.batches.length = 0;
        for (let turn = 0; turn < 50; turn += 1) {
          await round.askTogether([...crowd.waiting.keys()], crowd.maxBatchSize);
        }
        expect(mint.batches.flat().filter((id) => crowd.bad.has(id))).toEqual([]);
      }),
      PROPERTY,
    );
  });

  it.each([1, 7, 30])('gets along with a mint that refuses more than %i at once', async (most) => {
    mint.check = (asked) => (asked.length > most ? REFUSED : found(asked));
    const waiting = classesOf(ids(300), () => 0);
    expect(await turnsUntilSeen(waiting, 1_000)).toBeLessThan(1_000);
  });

  it('finds out a mint that refuses all batches, of ids that it knows', async () => {
    mint.check = () => REFUSED;
    const waiting = classesOf(ids(300), () => 0);
    expect(await turnsUntilSeen(waiting, 1_000)).toBeLessThanOrEqual(330);
  });

  it('remembers an id that spoils batches although the mint knows it', async () => {
    mint.check = (asked) => (asked.includes('bad') ? REFUSED : found(asked));
    await turnsUntilSeen(
      classesOf(['a', 'bad', 'b'], () => 0),
      30,
    );
    mint.batches.length = 0;
    await round.askTogether(['a', 'bad', 'b'], 100);
    expect(mint.batches).toEqual([['a', 'b']]);
  });

  it('asks in batches again for an id that the mint did not know, and came to know', async () => {
    spoilBatches(mint, new Set(['lost']));
    await turnsUntilSeen(
      classesOf(['a', 'lost', 'b'], () => 0),
      30,
    );
    spoilBatches(mint, new Set());
    await round.askAlone(['a', 'lost', 'b']);
    mint.batches.length = 0;
    await round.askTogether(['a', 'lost', 'b'], 100);
    expect(mint.batches).toEqual([['a', 'lost', 'b']]);
  });

  it('asks in batches again for an id that was left out once, after the mint answered for it', async () => {
    mint.check = (asked) => found(asked.filter((id) => id !== 'b'));
    await round.askTogether(['a', 'b'], 100);
    mint.check = found;

    expect(await round.askAlone(['a', 'b'])).toEqual({
      observations: [observation('b')],
      unanswered: [],
    });
    await round.askTogether(['a', 'b'], 100);
    expect(mint.batches.at(-1)).toEqual(['a', 'b']);
  });

  it('does not take a refusal of everything for the fault of an id', async () => {
    mint.check = () => ({ outcome: 'unavailable', reason: 'status 403' });
    mint.read = () => ({ outcome: 'unavailable', reason: 'status 403' });
    for (let turn = 0; turn < 20; turn += 1) {
      await round.askTogether(['a', 'b', 'c'], 100);
    }
    mint.check = found;
    mint.read = () => ({ outcome: 'unavailable', reason: 'status 403' });
    expect(await seenInTurns(3, ['a', 'b', 'c'])).toBe(3);
  });

  it('forgets the oldest of too many bad ids rather than to stop at a new one', async () => {
    mint.check = (asked) => found(asked.filter((id) => id === 'good'));
    for (let turn = 0; turn < 20; turn += 1) {
      const bad = Array.from({ length: 60 }, (_, index) => `bad-${turn}-${index}`);
      await round.askTogether([...bad, 'good'], 1000);
    }
    mint.batches.length = 0;
    await round.askTogether(['bad-19-0', 'good'], 1000);
    expect(mint.batches).toEqual([['good']]);
  });

  it('asks one by one where there are no batches, and tries them again after an hour', async () => {
    mint.check = () => ({ outcome: 'unsupported' });
    await round.askTogether(['a', 'b'], null);
    expect(await round.askTogether(['a', 'b'], null)).toEqual({ observations: [], unanswered: [] });
    expect((await round.askAlone(['a', 'b'])).observations).toEqual([observation('a')]);
    expect(mint.batches).toHaveLength(1);

    mint.check = found;
    mint.nowMs += HOUR_MS;
    expect((await round.askTogether(['a', 'b'], null)).observations).toHaveLength(2);
  });

  it('names a quote that the mint cannot answer for, so that it makes way for the next', async () => {
    mint.check = () => ({ outcome: 'unsupported' });
    mint.read = (quoteId) =>
      quoteId === 'bad'
        ? { outcome: 'unavailable', reason: 'unexpected answer' }
        : { outcome: 'found', observation: observation(quoteId) };
    await round.askTogether(['bad', 'good'], null);
    expect(await round.askAlone(['bad', 'good'])).toEqual({
      observations: [],
      unanswered: ['bad'],
    });
    expect((await round.askAlone(['good'])).observations).toEqual([observation('good')]);
  });

  it('lets one id that the batch route chokes on make way for the others', async () => {
    mint.check = (asked) =>
      asked.includes('bad') ? { outcome: 'unavailable', reason: 'status 500' } : found(asked);
    const seen = new Set<string>();
    let due = ['bad', 'a', 'b', 'c'];
    for (let turn = 0; turn < 8; turn += 1) {
      const { observations, unanswered } = await round.askTogether(due, 100);
      for (const { quoteId } of observations) {
        seen.add(quoteId);
      }
      due = due.filter((id) => !unanswered.includes(id) && !seen.has(id));
    }
    expect([...seen]).toEqual(['a', 'b', 'c']);
  });

  it('leaves the only due quote to its schedule, whatever the mint fails at', async () => {
    mint.check = () => ({ outcome: 'unavailable', reason: 'status 500' });
    expect((await round.askTogether(['a'], 100)).unanswered).toEqual([]);
  });

  it.each([401, 403, 413])('gets along without batches that are answered %i', async (status) => {
    mint.check = () => ({ outcome: 'unavailable', reason: `status ${status}` });
    expect(await seenInTurns(20, ids(20))).toBe(20);
  });

  it('is not kept from that by an id that is never due again, or that the mint does not know', async () => {
    mint.check = (asked) => found(asked.filter((id) => id !== 'gone' && id !== 'unknown'));
    await round.askTogether(['gone', 'unknown', 'a'], 100);
    mint.check = () => ({ outcome: 'unavailable', reason: 'status 500' });
    mint.read = (quoteId) =>
      quoteId === 'unknown'
        ? { outcome: 'not_found' }
        : { outcome: 'found', observation: observation(quoteId) };
    expect(await seenInTurns(60, ['unknown', ...ids(20)])).toBe(21);
  });

  it('does not take an outage for a broken route because of what was read before it', async () => {
    mint.check = (asked) => found(asked.filter((id) => id !== 'odd'));
    await round.askTogether(['odd', 'a'], 100);
    await round.askAlone(['odd']);
    mint.check = () => ({ outcome: 'unavailable', reason: 'timed out' });
    mint.read = () => ({ outcome: 'unavailable', reason: 'timed out' });
    for (let turn = 0; turn < 30; turn += 1) {
      await round.askTogether(ids(50), 100);
      await round.askAlone(ids(50));
    }
    mint.check = found;
    expect((await round.askTogether(ids(50), 100)).observations.length).toBeGreaterThan(0);
  });

  it('finds out a mint whose batch route is broken while it answers single reads', async () => {
    mint.check = () => ({ outcome: 'unavailable', reason: 'status 500' });
    const seen = new Set<string>();
    for (let turn = 0; turn < 30 && seen.size < 5; turn += 1) {
      const due = ids(5).filter((id) => !seen.has(id));
      await round.askTogether(due, 100);
      for (const { quoteId } of (await round.askAlone(due)).observations) {
        seen.add(quoteId);
      }
    }
    expect(seen.size).toBe(5);
  });

  it('asks a mint that was dead for long in batches again at once', async () => {
    mint.check = () => ({ outcome: 'unavailable', reason: 'timed out' });
    mint.read = () => ({ outcome: 'unavailable', reason: 'timed out' });
    for (let turn = 0; turn < 500; turn += 1) {
      await round.askTogether(ids(50), 100);
      await round.askAlone(ids(50));
    }
    mint.check = found;
    const seen = new Set<string>();
    for (let turn = 0; turn < 7; turn += 1) {
      const due = ids(50).filter((id) => !seen.has(id));
      for (const { quoteId } of (await round.askTogether(due, 100)).observations) {
        seen.add(quoteId);
      }
    }
    expect(seen.size).toBeGreaterThanOrEqual(49);
  });

  /** Polls as the watcher does, what was seen or put off being due no more; gives how many were seen. */
  async function seenInTurns(turns: number, all: string[]): Promise<number> {
    const seen = new Set<string>();
    let putOff = new Set<string>();
    for (let turn = 0; turn < turns * 3 && seen.size < all.length; turn += 1) {
      const due = all.filter((id) => !seen.has(id) && !putOff.has(id));
      putOff = new Set();
      for (const result of [await round.askTogether(due, 100), await round.askAlone(due)]) {
        for (const { quoteId } of result.observations) {
          seen.add(quoteId);
        }
        putOff = new Set([...putOff, ...result.unanswered]);
      }
    }
    return seen.size;
  }

  /**
   * Polls as the watcher does, the classes taking turns, until all of these were answered for. There
   * is more to ask than the mint allows: what was answered for is due again, behind its class.
   *
   * @param waiting class by id, each class the most urgent first
   * @returns turns taken; `atMost` where it was not done by then
   */
  async function turnsUntilSeen(
    waiting: ReadonlyMap<string, number>,
    atMost: number,
    maxBatchSize = 100,
    wanted: Iterable<string> = waiting.keys(),
  ): Promise<number> {
    const due = [new Set<string>(), new Set<string>(), new Set<string>()];
    for (const [id, checkClass] of waiting) {
      due[checkClass]?.add(id);
    }
    const unseen = new Set(wanted);
    let turn = 0;
    for (; turn < atMost && unseen.size > 0; turn += 1) {
      const asked = orderOfTurn(turn).flatMap((checkClass) => [...(due[checkClass] ?? [])]);
      const together = await round.askTogether(asked, maxBatchSize);
      const alone = await round.askAlone(asked);
      for (const { quoteId } of [...together.observations, ...alone.observations]) {
        unseen.delete(quoteId);
        const ofItsClass = due[waiting.get(quoteId) ?? 0];
        ofItsClass?.delete(quoteId);
        ofItsClass?.add(quoteId);
      }
    }
    return turn;
  }

  it('says nothing of quotes while the mint rests', async () => {
    mint.check = () => ({ outcome: 'rate_limited', retryAfterMs: 1000 });
    expect(await round.askTogether(['a'], 100)).toEqual({ observations: [], unanswered: [] });
  });

  it('may go on while the route of an id that is asked alone is free', async () => {
    mint.waits = { check: 4_000, read: 0 };
    expect(round.waitMs()).toBe(4_000);
    mint.check = (asked) => found(asked.slice(1));
    await round.askTogether(['alone', 'a'], 100);
    expect(round.waitMs()).toBe(0);
    mint.waits = { check: 4_000, read: 3_000 };
    expect(round.waitMs()).toBe(3_000);
    round.forget(['alone']);
    expect(round.waitMs()).toBe(4_000);
  });

  it('does not wait for the route of single reads where none that is asked alone is due', async () => {
    mint.check = (asked) => found(asked.filter((id) => id !== 'alone'));
    await round.askTogether(['alone', 'a'], 100);
    mint.waits = { check: 4_000, read: 0 };
    expect(round.waitMs()).toBe(0);
    await round.askTogether(['a'], 100);
    expect(round.waitMs()).toBe(4_000);
    await round.askAlone(['alone', 'a']);
    expect(round.waitMs()).toBe(4_000);
  });

  it('tries batches again after an hour, by whatever clock it gave them up', async () => {
    mint.nowMs = 1_000 * HOUR_MS;
    mint.check = () => ({ outcome: 'unsupported' });
    await round.askTogether(['a', 'b'], null);
    mint.nowMs = 10 * HOUR_MS;
    mint.check = found;
    expect((await round.askTogether(['a', 'b'], null)).observations).toEqual([]);
    mint.nowMs += HOUR_MS;
    expect((await round.askTogether(['a', 'b'], null)).observations).toHaveLength(2);
  });

  it('asks one by one while a mint that answers takes no batches for long, and not a dead one', async () => {
    mint.waits = { check: 60_000, read: 0 };
    expect(round.isBridging).toBe(true);
    expect(round.waitMs()).toBe(0);
    expect(await round.askTogether(['a', 'b'], 100)).toEqual({ observations: [], unanswered: [] });
    const { observations } = await round.askAlone(['a', 'b']);
    expect(observations).toEqual([observation('a')]);
    expect(mint.batches).toEqual([]);

    mint.read = () => ({ outcome: 'unavailable', reason: 'timeout' });
    await round.askAlone(['a', 'b']);
    expect(round.isBridging).toBe(false);
    expect(round.waitMs()).toBe(60_000);
  });
});

/** A mint that answers by script, and remembers what it was asked in batches. */
class ScriptedMint {
  nowMs = 0;
  waits = { check: 0, read: 0 };
  readonly batches: string[][] = [];
  check: (asked: string[]) => CheckQuotesAnswer = found;
  read: (quoteId: string) => ReadQuoteAnswer = (quoteId) => ({
    outcome: 'found',
    observation: observation(quoteId),
  });

  waitMs(_mintUrl: string, route: 'create' | 'read' | 'check' | 'info'): number {
    return route === 'check' || route === 'read' ? this.waits[route] : 0;
  }

  async checkQuotes(_mintUrl: string, quoteIds: readonly string[]): Promise<CheckQuotesAnswer> {
    this.batches.push([...quoteIds]);
    return this.check([...quoteIds]);
  }

  async readQuote(_mintUrl: string, quoteId: string): Promise<ReadQuoteAnswer> {
    return this.read(quoteId);
  }
}

function ids(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `id-${index}`);
}

function observation(quoteId: string): QuoteObservation {
  return { quoteId, state: 'UNPAID' };
}

function found(asked: string[]): CheckQuotesAnswer {
  return { outcome: 'found', observations: asked.map(observation) };
}

const REFUSED: CheckQuotesAnswer = { outcome: 'refused', status: 400, detail: 'no' };

/** A mint that refuses whole batches for these ids, and says of each alone that it knows it not. */
function spoilBatches(mint: ScriptedMint, bad: ReadonlySet<string>): void {
  mint.check = (asked) => (asked.some((id) => bad.has(id)) ? REFUSED : found(asked));
  mint.read = (quoteId) =>
    bad.has(quoteId)
      ? { outcome: 'not_found' }
      : { outcome: 'found', observation: observation(quoteId) };
}

function classesOf(quoteIds: string[], classOf: (index: number) => number): Map<string, number> {
  return new Map(quoteIds.map((id, index) => [id, classOf(index)]));
}

interface Crowd {
  waiting: Map<string, number>;
  bad: Set<string>;
  maxBatchSize: number;
}

/** Up to 1,000 due quotes in any classes and orders, up to so many of them bad. */
function crowds(mostBad: number): fc.Arbitrary<Crowd> {
  return fc
    .record({
      classes: fc.array(fc.integer({ min: 0, max: 2 }), {
        minLength: 1,
        maxLength: 1_000,
        size: 'max',
      }),
      badPlaces: fc.uniqueArray(fc.nat(999), { maxLength: mostBad, size: 'max' }),
      maxBatchSize: fc.integer({ min: 1, max: 1_000 }),
    })
    .map(({ classes, badPlaces, maxBatchSize }) => ({
      waiting: classesOf(ids(classes.length), (index) => classes[index] ?? 0),
      bad: new Set(
        badPlaces.filter((place) => place < classes.length).map((place) => `id-${place}`),
      ),
      maxBatchSize,
    }));
}
