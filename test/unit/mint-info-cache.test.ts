import { describe, expect, it, vi } from 'vitest';
import type { ReadInfoAnswer } from '../../src/mints/mint-client.ts';
import type { MintInfo } from '../../src/mints/mint-info.ts';
import { MintInfoCache } from '../../src/mints/mint-info-cache.ts';

const MINT = 'https://mint.example';
const INFO: MintInfo = {
  mintsBolt11Sat: true,
  minAmountSat: 1,
  maxAmountSat: 500_000,
  locking: true,
  subscriptions: true,
  batchCheck: { maxBatchSize: 100 },
  restoresEcash: true,
  takesDescription: true,
  takesDescriptionHash: true,
};
const NEWER: MintInfo = { ...INFO, maxAmountSat: 1_000_000 };
const FOUND: ReadInfoAnswer = { outcome: 'found', info: INFO };
const DEAD: ReadInfoAnswer = { outcome: 'unavailable', reason: 'timed out' };

describe('the info of a mint', () => {
  it('is asked for once, and served for five minutes', async () => {
    const { cache, readInfo, tick } = setUp(FOUND);
    await Promise.all([cache.get(MINT), cache.get(MINT), cache.refresh(MINT)]);
    tick(299_999);
    expect(await cache.get(MINT)).toEqual(INFO);
    expect(await cache.current(MINT)).toEqual(INFO);
    expect(readInfo).toHaveBeenCalledTimes(1);
  });

  it('is served at once and refreshed in the background when it is stale', async () => {
    const { cache, answer, tick } = setUp(FOUND);
    await cache.get(MINT);
    tick(300_000);
    const refreshed = Promise.withResolvers<ReadInfoAnswer>();
    answer(refreshed.promise);
    expect(await cache.get(MINT)).toEqual(INFO);
    refreshed.resolve({ outcome: 'found', info: NEWER });
    await cache.refresh(MINT);
    expect(await cache.get(MINT)).toEqual(NEWER);
  });

  it.each<ReadInfoAnswer>([DEAD, { outcome: 'invalid' }])(
    'is not asked for again for fifteen seconds after %j',
    async (failure) => {
      const { cache, readInfo, tick } = setUp(failure);
      expect(await cache.get(MINT)).toBeNull();
      tick(14_999);
      expect(await cache.get(MINT)).toBeNull();
      expect(readInfo).toHaveBeenCalledTimes(1);
      tick(1);
      expect(await cache.get(MINT)).toBeNull();
      expect(readInfo).toHaveBeenCalledTimes(2);
    },
  );

  it('stays known when the mint stops answering', async () => {
    const { cache, answer, readInfo, tick } = setUp(FOUND);
    await cache.get(MINT);
    tick(300_000);
    answer(Promise.resolve(DEAD));
    expect(await cache.refresh(MINT)).toBeNull();
    expect(await cache.get(MINT)).toEqual(INFO);
    expect(readInfo).toHaveBeenCalledTimes(2);
  });

  it('is requested if a user chooses the mint and the last answer was a failure', async () => {
    const { cache, readInfo } = setUp(DEAD, { [MINT]: INFO });
    expect(await cache.current(MINT)).toBeNull();
    expect(await cache.current(MINT)).toBeNull();
    expect(readInfo).toHaveBeenCalledTimes(2);
    expect(await cache.get(MINT)).toEqual(INFO);
  });
});

describe('the stored info of a mint', () => {
  it('is used after a restart if the mint does not answer', async () => {
    const { cache, remember } = setUp(DEAD, { [MINT]: INFO });
    expect(await cache.get(MINT)).toEqual(INFO);
    expect(remember).not.toHaveBeenCalled();
  });

  it('is written when it is new or has changed', async () => {
    const { cache, answer, remember } = setUp(FOUND);
    await cache.get(MINT);
    await cache.refresh(MINT);
    answer(Promise.resolve({ outcome: 'found', info: NEWER }));
    await cache.refresh(MINT);
    expect(remember.mock.calls).toEqual([
      [MINT, INFO],
      [MINT, NEWER],
    ]);
  });

  it('is written later if the database fails', async () => {
    const { cache, remember, warn } = setUp(FOUND);
    remember.mockRejectedValueOnce(new Error('connection lost'));
    expect(await cache.get(MINT)).toEqual(INFO);
    expect(warn).toHaveBeenCalledTimes(1);
    expect(await cache.get(MINT)).toEqual(INFO);
    expect(remember).toHaveBeenCalledTimes(2);
  });
});

function setUp(first: ReadInfoAnswer, stored: Record<string, MintInfo> = {}) {
  let nowMs = 0;
  let next = Promise.resolve(first);
  const readInfo = vi.fn((_mintUrl: string) => next);
  const remember = vi.fn(async (_mintUrl: string, _info: MintInfo) => {});
  const warn = vi.fn();
  const cache = new MintInfoCache({
    client: { readInfo },
    recall: async (mintUrl) => stored[mintUrl] ?? null,
    remember,
    monotonicMs: () => nowMs,
    log: { warn },
  });
  return {
    cache,
    readInfo,
    remember,
    warn,
    tick: (ms: number) => {
      nowMs += ms;
    },
    answer: (promise: Promise<ReadInfoAnswer>) => {
      next = promise;
    },
  };
}
