import { describe, expect, it, vi } from 'vitest';
import type { ReadInfoResult } from '../../../src/mints/mint-client.ts';
import type { MintInfo } from '../../../src/mints/mint-info.ts';
import { MintInfoCache } from '../../../src/mints/mint-info-cache.ts';

const MINT_URL = 'https://mint.example';
const INFO: MintInfo = {
  name: 'Mint',
  version: 'Mint/1',
  description: null,
  supportsBolt11Sat: true,
  minAmountSat: 1,
  maxAmountSat: 500_000,
  supportsLocking: true,
  subscriptionKind: 'bolt11_mint_quote',
  batchCheck: { maxBatchSize: 100 },
  supportsRestore: true,
  supportsDescription: true,
  supportsDescriptionHash: true,
};
const CHANGED_INFO: MintInfo = { ...INFO, maxAmountSat: 1_000_000 };
const INFO_TTL_MS = 5 * 60_000;
const FAILURE_TTL_MS = 15_000;
const FOUND: ReadInfoResult = { outcome: 'found', info: INFO };
const TIMED_OUT: ReadInfoResult = { outcome: 'unavailable', reason: 'timed out' };

describe('MintInfoCache', () => {
  it('requests the info once and returns it for five minutes', async () => {
    const { cache, readInfo, advanceMs } = createFixture(FOUND);
    await Promise.all([cache.lookUp(MINT_URL), cache.get(MINT_URL), cache.get(MINT_URL)]);
    advanceMs(INFO_TTL_MS - 1);
    expect(await cache.get(MINT_URL)).toEqual(INFO);
    expect(await cache.lookUp(MINT_URL)).toEqual(FOUND);
    expect(readInfo).toHaveBeenCalledTimes(1);
  });

  it('returns stale info immediately and refreshes it in the background', async () => {
    const { cache, setResult, advanceMs } = createFixture(FOUND);
    await cache.get(MINT_URL);
    advanceMs(INFO_TTL_MS);
    const pendingResult = Promise.withResolvers<ReadInfoResult>();
    setResult(pendingResult.promise);
    expect(await cache.get(MINT_URL)).toEqual(INFO);
    pendingResult.resolve({ outcome: 'found', info: CHANGED_INFO });
    await cache.lookUp(MINT_URL);
    expect(await cache.get(MINT_URL)).toEqual(CHANGED_INFO);
  });

  it('does not request the info again for fifteen seconds if the server is not a mint', async () => {
    const { cache, readInfo, advanceMs } = createFixture({ outcome: 'invalid' });
    expect(await cache.get(MINT_URL)).toBeNull();
    advanceMs(FAILURE_TTL_MS - 1);
    expect(await cache.get(MINT_URL)).toBeNull();
    expect(readInfo).toHaveBeenCalledTimes(1);
    advanceMs(1);
    expect(await cache.get(MINT_URL)).toBeNull();
    expect(readInfo).toHaveBeenCalledTimes(2);
  });

  it.each<ReadInfoResult>([TIMED_OUT, { outcome: 'rate_limited', retryAfterMs: null }])(
    'requests the info for the next caller after %j, which was not the answer of the mint',
    async (failure) => {
      const { cache, setResult } = createFixture(failure);
      expect(await cache.get(MINT_URL)).toBeNull();
      setResult(Promise.resolve(FOUND));
      expect(await cache.get(MINT_URL)).toEqual(INFO);
    },
  );

  it('stores the info whenever a mint has sent it, so that the mint is not pruned while it is in use', async () => {
    const { cache, setResult, saveInfo, advanceMs } = createFixture(FOUND);
    await cache.lookUp(MINT_URL);
    await cache.lookUp(MINT_URL);
    advanceMs(INFO_TTL_MS);
    setResult(Promise.resolve({ outcome: 'found', info: CHANGED_INFO }));
    await cache.lookUp(MINT_URL);
    expect(saveInfo.mock.calls).toEqual([
      [MINT_URL, INFO],
      [MINT_URL, CHANGED_INFO],
    ]);
  });
});

function createFixture(firstResult: ReadInfoResult) {
  let nowMs = 0;
  let nextResult = Promise.resolve(firstResult);
  const readInfo = vi.fn((_mintUrl: string) => nextResult);
  const saveInfo = vi.fn(async (_mintUrl: string, _info: MintInfo) => {});
  const cache = new MintInfoCache({
    client: { readInfo },
    loadInfo: async () => null,
    saveInfo,
    monotonicMs: () => nowMs,
    log: { warn: () => undefined },
  });
  return {
    cache,
    readInfo,
    saveInfo,
    advanceMs: (ms: number) => {
      nowMs += ms;
    },
    setResult: (promise: Promise<ReadInfoResult>) => {
      nextResult = promise;
    },
  };
}
