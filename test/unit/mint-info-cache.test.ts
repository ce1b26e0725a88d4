import { describe, expect, it, vi } from 'vitest';
import type { MintInfo, StoredMintInfo } from '../../src/domain/mint-info.ts';
import type { ReadInfoAnswer } from '../../src/mint/mint-client.ts';
import { MintInfoCache } from '../../src/mint/mint-info-cache.ts';

const MINT = 'https://mint.example';
const INFO: MintInfo = {
  mintsBolt11Sat: true,
  minAmountSat: 1,
  maxAmountSat: 500_000,
  locking: true,
  subscriptions: true,
  batchCheck: { maxBatchSize: 100 },
  restoresEcash: true,
  meltsBolt11Sat: true,
  takesDescription: true,
  takesDescriptionHash: true,
};
const NEWER: MintInfo = { ...INFO, maxAmountSat: 1_000_000 };
const FOUND: ReadInfoAnswer = { outcome: 'found', info: INFO };
const DEAD: ReadInfoAnswer = { outcome: 'unavailable', reason: 'timed out' };

describe('the mint info cache', () => {
  it('asks a mint once and serves what it learnt for five minutes', async () => {
    const { cache, readInfo, tick } = setUp(FOUND);
    expect(await cache.get(MINT)).toEqual(INFO);
    tick(299_999);
    expect(await cache.get(MINT)).toEqual(INFO);
    expect(readInfo).toHaveBeenCalledTimes(1);
  });

  it('asks once for all who wait', async () => {
    const { cache, readInfo } = setUp(FOUND);
    await Promise.all([cache.get(MINT), cache.get(MINT), cache.refresh(MINT)]);
    expect(readInfo).toHaveBeenCalledTimes(1);
  });

  it('takes what an older version remembered, and learns the rest', async () => {
    const { restoresEcash, meltsBolt11Sat, takesDescription, takesDescriptionHash, ...older } =
      INFO;
    const { cache, remember } = setUp(FOUND, { [MINT]: older });
    expect(await cache.get(MINT)).toEqual({
      ...older,
      restoresEcash: false,
      meltsBolt11Sat: false,
      takesDescription: false,
      takesDescriptionHash: false,
    });
    const learnt = { restoresEcash, meltsBolt11Sat, takesDescription, takesDescriptionHash };
    expect(await cache.refresh(MINT)).toEqual({ ...older, ...learnt });
    expect(remember).toHaveBeenCalledWith(MINT, INFO);
  });

  it('serves what is stale at once and refreshes it behind', async () => {
    const { cache, answer, tick } = setUp(FOUND);
    await cache.get(MINT);
    tick(300_000);
    answer(Promise.resolve({ outcome: 'found', info: NEWER }));
    expect(await cache.get(MINT)).toEqual(INFO);
    await cache.refresh(MINT);
    expect(await cache.get(MINT)).toEqual(NEWER);
  });

  it('does not let a mint that hangs delay who asks for what is known', async () => {
    const { cache, answer, tick } = setUp(FOUND);
    await cache.get(MINT);
    tick(300_000);
    answer(new Promise(() => {}));
    expect(await cache.get(MINT)).toEqual(INFO);
    expect(await cache.get(MINT)).toEqual(INFO);
  });

  it('takes silence for an answer for fifteen seconds', async () => {
    const { cache, readInfo, tick } = setUp(DEAD);
    expect(await cache.get(MINT)).toBeNull();
    tick(14_999);
    expect(await cache.get(MINT)).toBeNull();
    expect(readInfo).toHaveBeenCalledTimes(1);
    tick(1);
    expect(await cache.get(MINT)).toBeNull();
    expect(readInfo).toHaveBeenCalledTimes(2);
  });

  it('keeps what it knows of a mint that has died', async () => {
    const { cache, answer, readInfo, tick } = setUp(FOUND);
    await cache.get(MINT);
    tick(300_000);
    answer(Promise.resolve(DEAD));
    expect(await cache.refresh(MINT)).toBeNull();
    expect(await cache.get(MINT)).toEqual(INFO);
    expect(readInfo).toHaveBeenCalledTimes(2);
  });

  it('knows after a restart what a dead mint could do', async () => {
    const { cache, remember } = setUp(DEAD, { [MINT]: INFO });
    expect(await cache.get(MINT)).toEqual(INFO);
    expect(remember).not.toHaveBeenCalled();
  });

  it('remembers what is new or has changed, and only that', async () => {
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

  it('always asks the mint when a user chooses it', async () => {
    const { cache, readInfo } = setUp(FOUND, { [MINT]: NEWER });
    await cache.refresh(MINT);
    expect(await cache.refresh(MINT)).toEqual(INFO);
    expect(readInfo).toHaveBeenCalledTimes(2);
  });

  it('does not take a page for a mint', async () => {
    const { cache } = setUp({ outcome: 'invalid' });
    expect(await cache.refresh(MINT)).toBeNull();
  });

  it.each([
    ['of a mint that did not answer', DEAD, 15_000],
    ['of one that did', FOUND, 300_000],
  ])('asks again in time where the clock was set back after an answer %s', async (_, first, ms) => {
    const { cache, readInfo, tick } = setUp(first);
    await cache.get(MINT);
    tick(-365 * 24 * 3_600_000);
    await cache.get(MINT);
    tick(ms - 1);
    await cache.get(MINT);
    expect(readInfo).toHaveBeenCalledTimes(1);
    tick(1);
    await cache.get(MINT);
    expect(readInfo).toHaveBeenCalledTimes(2);
  });

  it('asks a mint that is chosen again in time where the clock was set back', async () => {
    const { cache, answer, tick } = setUp(FOUND);
    await cache.current(MINT);
    tick(-365 * 24 * 3_600_000);
    answer(Promise.resolve({ outcome: 'found', info: NEWER }));
    expect(await cache.current(MINT)).toEqual(INFO);
    tick(300_000);
    expect(await cache.current(MINT)).toEqual(NEWER);
  });

  it('serves what it could not remember, and tries again', async () => {
    const { cache, remember, warn } = setUp(FOUND);
    remember.mockRejectedValueOnce(new Error('database is away'));
    expect(await cache.get(MINT)).toEqual(INFO);
    expect(warn).toHaveBeenCalledTimes(1);
    expect(await cache.get(MINT)).toEqual(INFO);
    expect(remember).toHaveBeenCalledTimes(2);
  });

  it('forgets the mints that were not asked for the longest time', async () => {
    const { cache, readInfo } = setUp(FOUND);
    await cache.get(MINT);
    for (let mint = 0; mint < 1_000; mint += 1) {
      await cache.get(`https://${mint}.example`);
      if (mint === 500) {
        await cache.refresh('https://0.example');
      }
    }
    readInfo.mockClear();
    await cache.get('https://0.example');
    await cache.get('https://999.example');
    expect(readInfo).not.toHaveBeenCalled();
    await cache.get(MINT);
    expect(readInfo).toHaveBeenCalledTimes(1);
  });
});

function setUp(first: ReadInfoAnswer, stored: Record<string, StoredMintInfo> = {}) {
  let now = 1_800_000_000_000;
  let next = Promise.resolve(first);
  const readInfo = vi.fn((_mintUrl: string) => next);
  const remember = vi.fn(async (_mintUrl: string, _info: MintInfo) => {});
  const warn = vi.fn();
  const cache = new MintInfoCache({
    client: { readInfo },
    recall: async (mintUrl) => stored[mintUrl] ?? null,
    remember,
    clock: () => now,
    logger: { warn },
  });
  return {
    cache,
    readInfo,
    remember,
    warn,
    tick: (ms: number) => {
      now += ms;
    },
    answer: (promise: Promise<ReadInfoAnswer>) => {
      next = promise;
    },
  };
}
