import { describe, expect, it, vi } from 'vitest';
import type { ReadInfoResult } from '../../src/mints/mint-client.ts';
import type { MintInfo } from '../../src/mints/mint-info.ts';
import { MintInfoCache } from '../../src/mints/mint-info-cache.ts';

const MINT = 'https://mint.example';
const INFO: MintInfo = {
  supportsBolt11Sat: true,
  minAmountSat: 1,
  maxAmountSat: 500_000,
  supportsLocking: true,
  supportsSubscriptions: true,
  batchCheck: { maxBatchSize: 100 },
  supportsRestore: true,
  supportsDescription: true,
  supportsDescriptionHash: true,
};
const NEWER: MintInfo = { ...INFO, maxAmountSat: 1_000_000 };
const FOUND: ReadInfoResult = { outcome: 'found', info: INFO };
const DEAD: ReadInfoResult = { outcome: 'unavailable', reason: 'timed out' };

describe('MintInfoCache', () => {
  it('requests the info once and serves it for five minutes', async () => {
    const { cache, readInfo, tick } = setUp(FOUND);
    await Promise.all([cache.get(MINT), cache.get(MINT), cache.refresh(MINT)]);
    tick(299_999);
    expect(await cache.get(MINT)).toEqual(INFO);
    expect(await cache.getFresh(MINT)).toEqual(INFO);
    expect(readInfo).toHaveBeenCalledTimes(1);
  });

  it('serves stale info immediately and refreshes it in the background', async () => {
    const { cache, answer, tick } = setUp(FOUND);
    await cache.get(MINT);
    tick(300_000);
    const refreshed = Promise.withResolvers<ReadInfoResult>();
    answer(refreshed.promise);
    expect(await cache.get(MINT)).toEqual(INFO);
    refreshed.resolve({ outcome: 'found', info: NEWER });
    await cache.refresh(MINT);
    expect(await cache.get(MINT)).toEqual(NEWER);
  });

  it.each<ReadInfoResult>([DEAD, { outcome: 'invalid' }])(
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

  it('keeps the info when the mint stops responding', async () => {
    const { cache, answer, readInfo, tick } = setUp(FOUND);
    await cache.get(MINT);
    tick(300_000);
    answer(Promise.resolve(DEAD));
    expect(await cache.refresh(MINT)).toBeNull();
    expect(await cache.get(MINT)).toEqual(INFO);
    expect(readInfo).toHaveBeenCalledTimes(2);
  });

  it('requests the info again after a failure if a user chooses the mint', async () => {
    const { cache, readInfo } = setUp(DEAD, { [MINT]: INFO });
    expect(await cache.getFresh(MINT)).toBeNull();
    expect(await cache.getFresh(MINT)).toBeNull();
    expect(readInfo).toHaveBeenCalledTimes(2);
    expect(await cache.get(MINT)).toEqual(INFO);
  });
});

describe('MintInfoCache storage', () => {
  it('uses the stored info after a restart if the mint does not respond', async () => {
    const { cache, remember } = setUp(DEAD, { [MINT]: INFO });
    expect(await cache.get(MINT)).toEqual(INFO);
    expect(remember).not.toHaveBeenCalled();
  });

  it('writes the info when it is new or has changed', async () => {
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

  it('retries the write if the database fails', async () => {
    const { cache, remember, warn } = setUp(FOUND);
    remember.mockRejectedValueOnce(new Error('connection lost'));
    expect(await cache.get(MINT)).toEqual(INFO);
    expect(warn).toHaveBeenCalledTimes(1);
    expect(await cache.get(MINT)).toEqual(INFO);
    expect(remember).toHaveBeenCalledTimes(2);
  });
});

function setUp(first: ReadInfoResult, stored: Record<string, MintInfo> = {}) {
  let nowMs = 0;
  let next = Promise.resolve(first);
  const readInfo = vi.fn((_mintUrl: string) => next);
  const remember = vi.fn(async (_mintUrl: string, _info: MintInfo) => {});
  const warn = vi.fn();
  const cache = new MintInfoCache({
    client: { readInfo },
    loadInfo: async (mintUrl) => stored[mintUrl] ?? null,
    saveInfo: remember,
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
    answer: (promise: Promise<ReadInfoResult>) => {
      next = promise;
    },
  };
}
