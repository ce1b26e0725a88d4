import { describe, expect, it } from 'vitest';
import type { Keyset, KeysetKeys } from '../../../src/mints/ecash.ts';
import type { ReadKeysetsResult, ReadKeysResult } from '../../../src/mints/ecash-client.ts';
import { KeysetCache } from '../../../src/mints/keyset-cache.ts';

const MINT_URL = 'https://mint.example';
const INACTIVE_KEYSET: Keyset = { id: '00aa', unit: 'sat', active: false, inputFeePpk: 0 };
const ACTIVE_KEYSET: Keyset = { id: '01bb', unit: 'sat', active: true, inputFeePpk: 100 };
const KEYSETS_TTL_MS = 5 * 60_000;
const MIN_REFRESH_INTERVAL_MS = 5_000;
const DAY_MS = 24 * 3_600_000;
const TIMED_OUT = { outcome: 'unavailable', reason: 'timed out' } as const;

describe('KeysetCache.getKeysets', () => {
  it('sends at most one request in five minutes', async () => {
    const fixture = createFixture();
    expect(await fixture.cache.getKeysets(MINT_URL)).toEqual([INACTIVE_KEYSET, ACTIVE_KEYSET]);
    fixture.nowMs += KEYSETS_TTL_MS - 1;
    expect(await fixture.cache.getKeysets(MINT_URL)).toEqual([INACTIVE_KEYSET, ACTIVE_KEYSET]);
    expect(fixture.requests).toEqual(['keysets']);
    fixture.nowMs += 2;
    await fixture.cache.getKeysets(MINT_URL);
    expect(fixture.requests).toEqual(['keysets', 'keysets']);
  });

  it('sends one request for concurrent callers', async () => {
    const { cache, requests } = createFixture();
    const results = [
      cache.getKeysets(MINT_URL),
      cache.refreshKeysets(MINT_URL),
      cache.getKeysets(MINT_URL),
    ];
    expect(await Promise.all(results)).toEqual(Array(3).fill([INACTIVE_KEYSET, ACTIVE_KEYSET]));
    expect(requests).toEqual(['keysets']);
  });

  it('sends at most one request in five seconds for refreshes', async () => {
    const fixture = createFixture();
    fixture.keysetsResult = { outcome: 'found', keysets: [INACTIVE_KEYSET] };
    await fixture.cache.getKeysets(MINT_URL);
    fixture.keysetsResult = { outcome: 'found', keysets: [INACTIVE_KEYSET, ACTIVE_KEYSET] };
    fixture.nowMs += MIN_REFRESH_INTERVAL_MS - 1;
    expect(await fixture.cache.refreshKeysets(MINT_URL)).toEqual([INACTIVE_KEYSET]);
    fixture.nowMs += 1;
    expect(await fixture.cache.refreshKeysets(MINT_URL)).toEqual([INACTIVE_KEYSET, ACTIVE_KEYSET]);
    expect(await fixture.cache.getKeysets(MINT_URL)).toEqual([INACTIVE_KEYSET, ACTIVE_KEYSET]);
    expect(fixture.requests).toHaveLength(2);
  });

  it('returns null if the mint does not respond, and retries at the next call', async () => {
    const fixture = createFixture();
    fixture.keysetsResult = TIMED_OUT;
    expect(await fixture.cache.getKeysets(MINT_URL)).toBeNull();
    expect(await fixture.cache.refreshKeysets(MINT_URL)).toBeNull();
    expect(await fixture.cache.getKeys(MINT_URL, '01bb')).toBeNull();
    fixture.keysetsResult = { outcome: 'found', keysets: [ACTIVE_KEYSET] };
    expect(await fixture.cache.getKeysets(MINT_URL)).toEqual([ACTIVE_KEYSET]);
  });

  it('keeps cached keysets until they expire if a refresh fails', async () => {
    const fixture = createFixture();
    await fixture.cache.getKeysets(MINT_URL);
    fixture.nowMs += 2 * MIN_REFRESH_INTERVAL_MS;
    fixture.keysetsResult = TIMED_OUT;
    expect(await fixture.cache.refreshKeysets(MINT_URL)).toBeNull();
    expect(await fixture.cache.getKeysets(MINT_URL)).toEqual([INACTIVE_KEYSET, ACTIVE_KEYSET]);
    fixture.nowMs += KEYSETS_TTL_MS;
    expect(await fixture.cache.getKeysets(MINT_URL)).toBeNull();
  });

  it('returns cached keysets while a refresh is pending', async () => {
    const fixture = createFixture();
    await fixture.cache.getKeysets(MINT_URL);
    fixture.nowMs += 2 * MIN_REFRESH_INTERVAL_MS;
    const pendingResult = Promise.withResolvers<ReadKeysetsResult>();
    fixture.keysetsResult = pendingResult.promise;
    const refreshes = [
      fixture.cache.refreshKeysets(MINT_URL),
      fixture.cache.refreshKeysets(MINT_URL),
    ];
    expect(await fixture.cache.getKeysets(MINT_URL)).toEqual([INACTIVE_KEYSET, ACTIVE_KEYSET]);
    pendingResult.resolve({ outcome: 'found', keysets: [ACTIVE_KEYSET] });
    expect(await Promise.all(refreshes)).toEqual([[ACTIVE_KEYSET], [ACTIVE_KEYSET]]);
    expect(await fixture.cache.getKeysets(MINT_URL)).toEqual([ACTIVE_KEYSET]);
    expect(fixture.requests).toHaveLength(2);
  });

  it('sends at most one request in five seconds for refreshes that fail', async () => {
    const fixture = createFixture();
    await fixture.cache.getKeysets(MINT_URL);
    fixture.nowMs += 2 * MIN_REFRESH_INTERVAL_MS;
    fixture.keysetsResult = TIMED_OUT;
    expect(await fixture.cache.refreshKeysets(MINT_URL)).toBeNull();
    fixture.nowMs += MIN_REFRESH_INTERVAL_MS - 1;
    expect(await fixture.cache.refreshKeysets(MINT_URL)).toBeNull();
    expect(fixture.requests).toHaveLength(2);
    fixture.nowMs += 1;
    await fixture.cache.refreshKeysets(MINT_URL);
    expect(fixture.requests).toHaveLength(3);
  });

  it('caches the keysets of each mint separately', async () => {
    const fixture = createFixture();
    await fixture.cache.getKeysets(MINT_URL);
    fixture.keysetsResult = { outcome: 'found', keysets: [INACTIVE_KEYSET] };
    expect(await fixture.cache.getKeysets('https://other.example')).toEqual([INACTIVE_KEYSET]);
    expect(await fixture.cache.getKeysets(MINT_URL)).toEqual([INACTIVE_KEYSET, ACTIVE_KEYSET]);
  });
});

describe('KeysetCache.getKeys', () => {
  it('requests and verifies the keys of a keyset only once', async () => {
    const fixture = createFixture();
    const results = [
      fixture.cache.getKeys(MINT_URL, '01bb'),
      fixture.cache.getKeys(MINT_URL, '01bb'),
    ];
    expect(await Promise.all(results)).toEqual([keysFor('01bb'), keysFor('01bb')]);
    fixture.nowMs += 30 * DAY_MS;
    expect(await fixture.cache.getKeys(MINT_URL, '01bb')).toEqual(keysFor('01bb'));
    expect(fixture.requests).toEqual(['keysets', 'keys 01bb']);
    expect(fixture.verifiedKeys).toEqual([[ACTIVE_KEYSET, keysFor('01bb')]]);
  });

  it('sends no request if the mint does not list the keyset', async () => {
    const fixture = createFixture();
    expect(await fixture.cache.getKeys(MINT_URL, '00cc')).toBeNull();
    expect(fixture.requests).toEqual(['keysets']);
  });

  it.each<[string, Partial<ReturnType<typeof createFixture>>]>([
    ['invalid', { areKeysValid: false }],
    ['unavailable', { readKeys: () => TIMED_OUT }],
    ['not found', { readKeys: () => ({ outcome: 'not_found' }) }],
    ['rate limited', { readKeys: () => ({ outcome: 'rate_limited', retryAfterMs: 1 }) }],
  ])('returns null if the keys are %s, and retries at the next call', async (_case, changes) => {
    const fixture = Object.assign(createFixture(), changes);
    expect(await fixture.cache.getKeys(MINT_URL, '01bb')).toBeNull();
    expect(fixture.requests).toEqual(['keysets', 'keys 01bb']);
    Object.assign(fixture, { areKeysValid: true, readKeys: findKeys });
    expect(await fixture.cache.getKeys(MINT_URL, '01bb')).toEqual(keysFor('01bb'));
  });
});

/** Creates a cache for a fake mint whose results the test can change. */
function createFixture() {
  const fixture = {
    nowMs: 1_800_000_000_000,
    requests: [] as string[],
    verifiedKeys: [] as [Keyset, KeysetKeys][],
    areKeysValid: true,
    keysetsResult: { outcome: 'found', keysets: [INACTIVE_KEYSET, ACTIVE_KEYSET] } as
      | ReadKeysetsResult
      | Promise<ReadKeysetsResult>,
    readKeys: findKeys as (keysetId: string) => ReadKeysResult,
  };
  const cache = new KeysetCache({
    client: {
      readKeysets: async () => {
        fixture.requests.push('keysets');
        return await fixture.keysetsResult;
      },
      readKeys: async (_mintUrl, keysetId) => {
        fixture.requests.push(`keys ${keysetId}`);
        return fixture.readKeys(keysetId);
      },
    },
    verifyKeys: (keyset, keys) => {
      fixture.verifiedKeys.push([keyset, keys]);
      return fixture.areKeysValid;
    },
    monotonicMs: () => fixture.nowMs,
  });
  return Object.assign(fixture, { cache });
}

function findKeys(keysetId: string): ReadKeysResult {
  return { outcome: 'found', keys: keysFor(keysetId) };
}

function keysFor(id: string): KeysetKeys {
  return { id, keys: { 1: `02${'11'.repeat(32)}` } };
}
