import { describe, expect, it } from 'vitest';
import type { Keyset, KeysetKeys } from '../../src/mints/ecash.ts';
import type { ReadKeysAnswer, ReadKeysetsAnswer } from '../../src/mints/ecash-client.ts';
import { KeysetCache } from '../../src/mints/keyset-cache.ts';

const MINT = 'https://mint.example';
const OLD: Keyset = { id: '00aa', unit: 'sat', active: false, inputFeePpk: 0 };
const NEW: Keyset = { id: '01bb', unit: 'sat', active: true, inputFeePpk: 100 };
const DEAD = { outcome: 'unavailable', reason: 'timed out' } as const;

describe('keysets', () => {
  it('are requested once in five minutes', async () => {
    const world = open();
    expect(await world.cache.keysets(MINT)).toEqual([OLD, NEW]);
    world.nowMs += 299_999;
    expect(await world.cache.keysets(MINT)).toEqual([OLD, NEW]);
    expect(world.asked).toEqual(['keysets']);
    world.nowMs += 2;
    await world.cache.keysets(MINT);
    expect(world.asked).toEqual(['keysets', 'keysets']);
  });

  it('are requested once for concurrent callers', async () => {
    const { cache, asked } = open();
    const all = [cache.keysets(MINT), cache.refresh(MINT), cache.keysets(MINT)];
    expect(await Promise.all(all)).toEqual(Array(3).fill([OLD, NEW]));
    expect(asked).toEqual(['keysets']);
  });

  it('are refreshed at most once in five seconds', async () => {
    const world = open();
    world.keysets = { outcome: 'found', keysets: [OLD] };
    await world.cache.keysets(MINT);
    world.keysets = { outcome: 'found', keysets: [OLD, NEW] };
    world.nowMs += 4_999;
    expect(await world.cache.refresh(MINT)).toEqual([OLD]);
    world.nowMs += 1;
    expect(await world.cache.refresh(MINT)).toEqual([OLD, NEW]);
    expect(await world.cache.keysets(MINT)).toEqual([OLD, NEW]);
    expect(world.asked).toHaveLength(2);
  });

  it('are null if the mint does not answer, which is asked again the next time', async () => {
    const world = open();
    world.keysets = DEAD;
    expect(await world.cache.keysets(MINT)).toBeNull();
    expect(await world.cache.refresh(MINT)).toBeNull();
    expect(await world.cache.keys(MINT, '01bb')).toBeNull();
    world.keysets = { outcome: 'found', keysets: [NEW] };
    expect(await world.cache.keysets(MINT)).toEqual([NEW]);
  });

  it('stay cached if a refresh fails', async () => {
    const world = open();
    await world.cache.keysets(MINT);
    world.nowMs += 10_000;
    world.keysets = DEAD;
    expect(await world.cache.refresh(MINT)).toBeNull();
    expect(await world.cache.keysets(MINT)).toEqual([OLD, NEW]);
    world.nowMs += 300_000;
    expect(await world.cache.keysets(MINT)).toBeNull();
  });

  it('stay available while a refresh is under way', async () => {
    const world = open();
    await world.cache.keysets(MINT);
    world.nowMs += 10_000;
    const answer = Promise.withResolvers<ReadKeysetsAnswer>();
    world.keysets = answer.promise;
    const refreshed = [world.cache.refresh(MINT), world.cache.refresh(MINT)];
    expect(await world.cache.keysets(MINT)).toEqual([OLD, NEW]);
    answer.resolve({ outcome: 'found', keysets: [NEW] });
    expect(await Promise.all(refreshed)).toEqual([[NEW], [NEW]]);
    expect(await world.cache.keysets(MINT)).toEqual([NEW]);
    expect(world.asked).toHaveLength(2);
  });

  it('are refreshed at most once in five seconds from a mint that does not answer', async () => {
    const world = open();
    await world.cache.keysets(MINT);
    world.nowMs += 10_000;
    world.keysets = DEAD;
    expect(await world.cache.refresh(MINT)).toBeNull();
    world.nowMs += 4_999;
    expect(await world.cache.refresh(MINT)).toBeNull();
    expect(world.asked).toHaveLength(2);
    world.nowMs += 1;
    await world.cache.refresh(MINT);
    expect(world.asked).toHaveLength(3);
  });

  it('are cached by mint', async () => {
    const world = open();
    await world.cache.keysets(MINT);
    world.keysets = { outcome: 'found', keysets: [OLD] };
    expect(await world.cache.keysets('https://other.example')).toEqual([OLD]);
    expect(await world.cache.keysets(MINT)).toEqual([OLD, NEW]);
  });
});

describe('keys', () => {
  it('are requested and verified once, and cached for good', async () => {
    const world = open();
    const all = [world.cache.keys(MINT, '01bb'), world.cache.keys(MINT, '01bb')];
    expect(await Promise.all(all)).toEqual([keysOf('01bb'), keysOf('01bb')]);
    world.nowMs += 30 * 24 * 3_600_000;
    expect(await world.cache.keys(MINT, '01bb')).toEqual(keysOf('01bb'));
    expect(world.asked).toEqual(['keysets', 'keys 01bb']);
    expect(world.verified).toEqual([[NEW, keysOf('01bb')]]);
  });

  it('are not requested if the mint does not list the keyset', async () => {
    const world = open();
    expect(await world.cache.keys(MINT, '00cc')).toBeNull();
    expect(world.asked).toEqual(['keysets']);
  });

  it.each<[string, Partial<ReturnType<typeof open>>]>([
    ['unverified', { isGenuine: false }],
    ['unavailable', { keys: () => DEAD }],
    ['not found', { keys: () => ({ outcome: 'not_found' }) }],
    ['rate limited', { keys: () => ({ outcome: 'rate_limited', retryAfterMs: 1 }) }],
  ])('are null if they are %s, and requested again the next time', async (_case, fault) => {
    const world = Object.assign(open(), fault);
    expect(await world.cache.keys(MINT, '01bb')).toBeNull();
    expect(world.asked).toEqual(['keysets', 'keys 01bb']);
    Object.assign(world, { isGenuine: true, keys: found });
    expect(await world.cache.keys(MINT, '01bb')).toEqual(keysOf('01bb'));
  });
});

/** A cache in front of a mint whose answers the test may change. */
function open() {
  const world = {
    nowMs: 1_800_000_000_000,
    asked: [] as string[],
    verified: [] as [Keyset, KeysetKeys][],
    isGenuine: true,
    keysets: { outcome: 'found', keysets: [OLD, NEW] } as
      | ReadKeysetsAnswer
      | Promise<ReadKeysetsAnswer>,
    keys: found as (keysetId: string) => ReadKeysAnswer,
  };
  const cache = new KeysetCache({
    client: {
      readKeysets: async () => {
        world.asked.push('keysets');
        return await world.keysets;
      },
      readKeys: async (_mintUrl, keysetId) => {
        world.asked.push(`keys ${keysetId}`);
        return world.keys(keysetId);
      },
    },
    verify: (keyset, keys) => {
      world.verified.push([keyset, keys]);
      return world.isGenuine;
    },
    monotonicMs: () => world.nowMs,
  });
  return Object.assign(world, { cache });
}

function found(keysetId: string): ReadKeysAnswer {
  return { outcome: 'found', keys: keysOf(keysetId) };
}

function keysOf(id: string): KeysetKeys {
  return { id, keys: { 1: `02${'11'.repeat(32)}` } };
}
