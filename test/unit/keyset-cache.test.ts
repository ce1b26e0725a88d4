import { describe, expect, it } from 'vitest';
import type { Keyset, KeysetKeys } from '../../src/mints/ecash.ts';
import type { ReadKeysetsResult, ReadKeysResult } from '../../src/mints/ecash-client.ts';
import { KeysetCache } from '../../src/mints/keyset-cache.ts';

const MINT = 'https://mint.example';
const OLD: Keyset = { id: '00aa', unit: 'sat', active: false, inputFeePpk: 0 };
const NEW: Keyset = { id: '01bb', unit: 'sat', active: true, inputFeePpk: 100 };
const DEAD = { outcome: 'unavailable', reason: 'timed out' } as const;

describe('KeysetCache.getKeysets', () => {
  it('sends one request in five minutes', async () => {
    const setup = createCache();
    expect(await setup.cache.getKeysets(MINT)).toEqual([OLD, NEW]);
    setup.nowMs += 299_999;
    expect(await setup.cache.getKeysets(MINT)).toEqual([OLD, NEW]);
    expect(setup.requests).toEqual(['keysets']);
    setup.nowMs += 2;
    await setup.cache.getKeysets(MINT);
    expect(setup.requests).toEqual(['keysets', 'keysets']);
  });

  it('sends one request for concurrent callers', async () => {
    const { cache, requests } = createCache();
    const all = [cache.getKeysets(MINT), cache.refreshKeysets(MINT), cache.getKeysets(MINT)];
    expect(await Promise.all(all)).toEqual(Array(3).fill([OLD, NEW]));
    expect(requests).toEqual(['keysets']);
  });

  it('refreshes at most once in five seconds', async () => {
    const setup = createCache();
    setup.keysets = { outcome: 'found', keysets: [OLD] };
    await setup.cache.getKeysets(MINT);
    setup.keysets = { outcome: 'found', keysets: [OLD, NEW] };
    setup.nowMs += 4_999;
    expect(await setup.cache.refreshKeysets(MINT)).toEqual([OLD]);
    setup.nowMs += 1;
    expect(await setup.cache.refreshKeysets(MINT)).toEqual([OLD, NEW]);
    expect(await setup.cache.getKeysets(MINT)).toEqual([OLD, NEW]);
    expect(setup.requests).toHaveLength(2);
  });

  it('returns null if the mint does not respond, and retries at the next call', async () => {
    const setup = createCache();
    setup.keysets = DEAD;
    expect(await setup.cache.getKeysets(MINT)).toBeNull();
    expect(await setup.cache.refreshKeysets(MINT)).toBeNull();
    expect(await setup.cache.getKeys(MINT, '01bb')).toBeNull();
    setup.keysets = { outcome: 'found', keysets: [NEW] };
    expect(await setup.cache.getKeysets(MINT)).toEqual([NEW]);
  });

  it('keeps cached keysets if a refresh fails', async () => {
    const setup = createCache();
    await setup.cache.getKeysets(MINT);
    setup.nowMs += 10_000;
    setup.keysets = DEAD;
    expect(await setup.cache.refreshKeysets(MINT)).toBeNull();
    expect(await setup.cache.getKeysets(MINT)).toEqual([OLD, NEW]);
    setup.nowMs += 300_000;
    expect(await setup.cache.getKeysets(MINT)).toBeNull();
  });

  it('returns cached keysets while a refresh is pending', async () => {
    const setup = createCache();
    await setup.cache.getKeysets(MINT);
    setup.nowMs += 10_000;
    const answer = Promise.withResolvers<ReadKeysetsResult>();
    setup.keysets = answer.promise;
    const refreshed = [setup.cache.refreshKeysets(MINT), setup.cache.refreshKeysets(MINT)];
    expect(await setup.cache.getKeysets(MINT)).toEqual([OLD, NEW]);
    answer.resolve({ outcome: 'found', keysets: [NEW] });
    expect(await Promise.all(refreshed)).toEqual([[NEW], [NEW]]);
    expect(await setup.cache.getKeysets(MINT)).toEqual([NEW]);
    expect(setup.requests).toHaveLength(2);
  });

  it('refreshes at most once in five seconds from a mint that does not respond', async () => {
    const setup = createCache();
    await setup.cache.getKeysets(MINT);
    setup.nowMs += 10_000;
    setup.keysets = DEAD;
    expect(await setup.cache.refreshKeysets(MINT)).toBeNull();
    setup.nowMs += 4_999;
    expect(await setup.cache.refreshKeysets(MINT)).toBeNull();
    expect(setup.requests).toHaveLength(2);
    setup.nowMs += 1;
    await setup.cache.refreshKeysets(MINT);
    expect(setup.requests).toHaveLength(3);
  });

  it('caches keysets by mint', async () => {
    const setup = createCache();
    await setup.cache.getKeysets(MINT);
    setup.keysets = { outcome: 'found', keysets: [OLD] };
    expect(await setup.cache.getKeysets('https://other.example')).toEqual([OLD]);
    expect(await setup.cache.getKeysets(MINT)).toEqual([OLD, NEW]);
  });
});

describe('KeysetCache.getKeys', () => {
  it('requests and verifies keys once and caches them permanently', async () => {
    const setup = createCache();
    const all = [setup.cache.getKeys(MINT, '01bb'), setup.cache.getKeys(MINT, '01bb')];
    expect(await Promise.all(all)).toEqual([keysOf('01bb'), keysOf('01bb')]);
    setup.nowMs += 30 * 24 * 3_600_000;
    expect(await setup.cache.getKeys(MINT, '01bb')).toEqual(keysOf('01bb'));
    expect(setup.requests).toEqual(['keysets', 'keys 01bb']);
    expect(setup.verified).toEqual([[NEW, keysOf('01bb')]]);
  });

  it('sends no request if the mint does not list the keyset', async () => {
    const setup = createCache();
    expect(await setup.cache.getKeys(MINT, '00cc')).toBeNull();
    expect(setup.requests).toEqual(['keysets']);
  });

  it.each<[string, Partial<ReturnType<typeof createCache>>]>([
    ['unverified', { isGenuine: false }],
    ['unavailable', { keys: () => DEAD }],
    ['not found', { keys: () => ({ outcome: 'not_found' }) }],
    ['rate limited', { keys: () => ({ outcome: 'rate_limited', retryAfterMs: 1 }) }],
  ])('returns null if the keys are %s, and retries at the next call', async (_case, fault) => {
    const setup = Object.assign(createCache(), fault);
    expect(await setup.cache.getKeys(MINT, '01bb')).toBeNull();
    expect(setup.requests).toEqual(['keysets', 'keys 01bb']);
    Object.assign(setup, { isGenuine: true, keys: found });
    expect(await setup.cache.getKeys(MINT, '01bb')).toEqual(keysOf('01bb'));
  });
});

/** Creates a cache for a mint whose responses the test can change. */
function createCache() {
  const setup = {
    nowMs: 1_800_000_000_000,
    requests: [] as string[],
    verified: [] as [Keyset, KeysetKeys][],
    isGenuine: true,
    keysets: { outcome: 'found', keysets: [OLD, NEW] } as
      | ReadKeysetsResult
      | Promise<ReadKeysetsResult>,
    keys: found as (keysetId: string) => ReadKeysResult,
  };
  const cache = new KeysetCache({
    client: {
      readKeysets: async () => {
        setup.requests.push('keysets');
        return await setup.keysets;
      },
      readKeys: async (_mintUrl, keysetId) => {
        setup.requests.push(`keys ${keysetId}`);
        return setup.keys(keysetId);
      },
    },
    verifyKeys: (keyset, keys) => {
      setup.verified.push([keyset, keys]);
      return setup.isGenuine;
    },
    monotonicMs: () => setup.nowMs,
  });
  return Object.assign(setup, { cache });
}

function found(keysetId: string): ReadKeysResult {
  return { outcome: 'found', keys: keysOf(keysetId) };
}

function keysOf(id: string): KeysetKeys {
  return { id, keys: { 1: `02${'11'.repeat(32)}` } };
}
