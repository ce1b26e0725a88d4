import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import type { SwapAnswer } from '../../src/mint/ecash-client.ts';
import { PacedEcashClient } from '../../src/mint/paced-ecash-client.ts';
import { POLL_GAP_MS, parseLearntLimits, RequestBudget } from '../../src/mint/request-budget.ts';

const MINT = 'https://mint.example';

describe('ecash traffic to a mint', () => {
  it('leaves a route alone that the mint wants left alone, and no other', async () => {
    const world = open();
    world.answer = { outcome: 'rate_limited', retryAfterMs: 30_000 };
    await world.mints.swap(MINT, [], []);
    world.nowMs += 10_000;
    expect(await world.mints.swap(MINT, [], [])).toEqual({
      outcome: 'rate_limited',
      retryAfterMs: 20_000,
    });
    expect(world.asked).toEqual(['swap']);
    world.answer = FOUND;
    for (const ask of others(world.mints)) {
      expect(await ask()).toEqual(FOUND);
    }
    expect(world.asked).toEqual([
      'swap',
      'readKeysets',
      'readKeys',
      'checkState',
      'restore',
      'createMeltQuote',
      'readMeltQuote',
      'melt',
    ]);
  });

  it.each(['swap', 'melt'] as const)(
    'says that a %s was not done only where the mint certainly heard nothing of it',
    async (route) => {
      const world = open();
      const ask = {
        swap: () => world.mints.swap(MINT, [], []),
        melt: () => world.mints.melt(MINT, { quoteId: 'q', inputs: [], outputs: [] }),
      }[route];
      world.answer = { outcome: 'unavailable', reason: 'closed', isUnsent: true };
      expect(await ask()).toEqual({ outcome: 'rate_limited', retryAfterMs: 0 });
      world.answer = { outcome: 'unavailable', reason: 'closed' };
      expect(await ask()).toEqual(world.answer);
    },
  );

  it('does not send a swap twice by itself', async () => {
    const world = open();
    world.answer = { outcome: 'unavailable', reason: 'status 500' };
    expect(await world.mints.swap(MINT, [], [])).toEqual(world.answer);
    expect(world.asked).toEqual(['swap']);
  });

  it('is counted by limits that outlive the process', async () => {
    const world = open();
    world.answer = { outcome: 'rate_limited', retryAfterMs: null };
    for (const ask of [() => world.mints.swap(MINT, [], []), ...others(world.mints)]) {
      await ask();
    }
    const learnt = world.budget.learnt(MINT, world.nowMs);
    expect(Object.keys(learnt ?? {}).sort()).toEqual(
      ['keys', 'melt', 'melt_quote', 'restore', 'state', 'swap'].sort(),
    );
    expect(parseLearntLimits(JSON.parse(JSON.stringify(learnt)))).toEqual(learnt);
  });
});

type Answer = Extract<SwapAnswer, { outcome: 'rate_limited' | 'unavailable' }> | typeof FOUND;

/** Any answer of a mint that is there; none of these tests looks into it. */
const FOUND = { outcome: 'not_found' } as const;

/** A paced client of a mint that gives one answer to everything. */
function open() {
  const world = { nowMs: 1_800_000_000_000, asked: [] as string[], answer: FOUND as Answer };
  const answering = (name: string) => async () => {
    world.asked.push(name);
    return world.answer as never;
  };
  const budget = new RequestBudget({ pollGapMs: POLL_GAP_MS });
  const mints = new PacedEcashClient({
    client: {
      readKeysets: answering('readKeysets'),
      readKeys: answering('readKeys'),
      swap: answering('swap'),
      checkState: answering('checkState'),
      restore: answering('restore'),
      createMeltQuote: answering('createMeltQuote'),
      readMeltQuote: answering('readMeltQuote'),
      melt: answering('melt'),
    },
    budget,
    clock: () => world.nowMs,
    log: pino({ level: 'silent' }),
  });
  return Object.assign(world, { budget, mints });
}

/** Everything but a swap. */
function others(mints: PacedEcashClient): (() => Promise<unknown>)[] {
  return [
    () => mints.readKeysets(MINT),
    () => mints.readKeys(MINT, '00aa'),
    () => mints.checkState(MINT, []),
    () => mints.restore(MINT, []),
    () => mints.createMeltQuote(MINT, 'lnbc1'),
    () => mints.readMeltQuote(MINT, 'q'),
    () => mints.melt(MINT, { quoteId: 'q', inputs: [], outputs: [] }),
  ];
}
