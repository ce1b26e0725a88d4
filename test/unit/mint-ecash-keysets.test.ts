import { describe, expect, it } from 'vitest';
import type { Keyset, KeysetKeys } from '../../src/domain/ecash.ts';
import type { ReadKeysAnswer, ReadKeysetsAnswer } from '../../src/mint/ecash-client.ts';
import { KeysetCache } from '../../src/mint/keyset-cache.ts';

const MINT = 'https://mint.example';
const OLD: Keyset = { id: '00aa', unit: 'sat', active: false, inputFeePpk: 0 };
const NEW: Keyset = { id: '01bb', unit: 'sat', active: true, inputFeePpk: 100 };
const DEAD = { outcome: 'unavailable', reason: 'timed out' } as const;

describe('the keysets of a mint', () => {
  it('are asked for once in five minutes', async () => {
    const world = open();
    expect(await world.cache.keysets(MINT)).toEqual([OLD, NEW]);
    world.nowMs += 299_999;
    expect(await world.cache.keysets(MINT)).toEqual([OLD, NEW]);
    expect(world.asked).toEqual(['keysets']);
    world.nowMs += 1;
    await world.cache.keysets(MINT);
    expect(world.asked).toEqual(['keysets', 'keysets']);
  });

  it('are asked for once by all who wait', async () => {
    const world = open();
    const { cache } = world;
    const lists = await Promise.all([
      cache.keysets(MINT),
      cache.refresh(MINT),
      cache.keysets(MINT),
    ]);
    expect(lists).toEqual([
      [OLD, NEW],
      [OLD, NEW],
      [OLD, NEW],
    ]);
    expect(world.asked).toEqual(['keysets']);
  });

  it('are learnt anew when somebody knows of a new one', async () => {
    const world = open();
    world.keysets = { outcome: 'found', keysets: [OLD] };
    await world.cache.keysets(MINT);
    world.nowMs += 5_000;
    world.keysets = { outcome: 'found', keysets: [OLD, NEW] };
    expect(await world.cache.refresh(MINT)).toEqual([OLD, NEW]);
    expect(await world.cache.keysets(MINT)).toEqual([OLD, NEW]);
    expect(world.asked).toHaveLength(2);
  });

  it('are not asked for at every token of a made-up keyset', async () => {
    const world = open();
    for (let token = 0; token < 100; token += 1) {
      expect(await world.cache.refresh(MINT)).toEqual([OLD, NEW]);
      world.nowMs += 100;
    }
    expect(world.asked).toHaveLength(2);
  });

  it('are not known of a mint that does not answer, which is asked again soon', async () => {
    const world = open();
    world.keysets = DEAD;
    expect(await world.cache.keysets(MINT)).toBeNull();
    expect(await world.cache.refresh(MINT)).toBeNull();
    expect(world.asked).toHaveLength(1);
    world.nowMs += 5_000;
    world.keysets = { outcome: 'found', keysets: [NEW] };
    expect(await world.cache.keysets(MINT)).toEqual([NEW]);
  });

  it('stay known for their time where a refresh brings nothing', async () => {
    const world = open();
    await world.cache.keysets(MINT);
    world.nowMs += 10_000;
    world.keysets = DEAD;
    expect(await world.cache.refresh(MINT)).toBeNull();
    expect(await world.cache.keysets(MINT)).toEqual([OLD, NEW]);
    world.nowMs += 300_000;
    expect(await world.cache.keysets(MINT)).toBeNull();
  });

  it('are asked for anew where the clock was set back', async () => {
    const world = open();
    await world.cache.keysets(MINT);
    world.nowMs -= 3_600_000;
    await world.cache.keysets(MINT);
    expect(world.asked).toHaveLength(2);
  });

  it('are those of the mint that was asked', async () => {
    const world = open();
    await world.cache.keysets(MINT);
    world.keysets = { outcome: 'found', keysets: [OLD] };
    expect(await world.cache.keysets('https://other.example')).toEqual([OLD]);
    expect(await world.cache.keysets(MINT)).toEqual([OLD, NEW]);
  });
});

describe('the keys of a keyset', () => {
  it('are asked for once and for good', async () => {
    const world = open();
    const [one, two] = await Promise.all([
      world.cache.keys(MINT, '01bb'),
      world.cache.keys(MINT, '01bb'),
    ]);
    expect(one).toEqual(keysOf('01bb'));
    expect(two).toBe(one);
    world.nowMs += 30 * 24 * 3_600_000;
    expect(await world.cache.keys(MINT, '01bb')).toBe(one);
    expect(world.asked).toEqual(['keysets', 'keys 01bb']);
  });

  it('are not asked for where the mint lists no such keyset', async () => {
    const world = open();
    expect(await world.cache.keys(MINT, '00cc')).toBeNull();
    expect(world.asked).toEqual(['keysets']);
  });

  it('are not taken where they are not of that keyset, and asked for again later', async () => {
    const world = open();
    world.isGenuine = false;
    expect(await world.cache.keys(MINT, '01bb')).toBeNull();
    expect(await world.cache.keys(MINT, '01bb')).toBeNull();
    expect(world.asked).toEqual(['keysets', 'keys 01bb']);
    world.nowMs += 5_000;
    world.isGenuine = true;
    expect(await world.cache.keys(MINT, '01bb')).toEqual(keysOf('01bb'));
  });

  it('are verified against what the mint lists', async () => {
    const world = open();
    await world.cache.keys(MINT, '01bb');
    expect(world.verified).toEqual([[NEW, keysOf('01bb')]]);
  });

  it.each<ReadKeysAnswer>([
    DEAD,
    { outcome: 'not_found' },
    { outcome: 'rate_limited', retryAfterMs: 1 },
  ])('are not to be had where the mint says %j', async (answer) => {
    const world = open();
    world.keys = () => answer;
    expect(await world.cache.keys(MINT, '01bb')).toBeNull();
    world.nowMs += 5_000;
    world.keys = found;
    expect(await world.cache.keys(MINT, '01bb')).toEqual(keysOf('01bb'));
  });

  it('are not to be had of a mint that is silent', async () => {
    const world = open();
    world.keysets = DEAD;
    expect(await world.cache.keys(MINT, '01bb')).toBeNull();
  });
});

/** A cache in front of a mint whose words the test may change. */
function open() {
  const world = {
    nowMs: 1_800_000_000_000,
    asked: [] as string[],
    verified: [] as [Keyset, KeysetKeys][],
    isGenuine: true,
    keysets: { outcome: 'found', keysets: [OLD, NEW] } as ReadKeysetsAnswer,
    keys: found as (keysetId: string) => ReadKeysAnswer,
  };
  const cache = new KeysetCache({
    client: {
      readKeysets: async () => {
        world.asked.push('keysets');
        return world.keysets;
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
    clock: () => world.nowMs,
  });
  return Object.assign(world, { cache });
}

function found(keysetId: string): ReadKeysAnswer {
  return { outcome: 'found', keys: keysOf(keysetId) };
}

function keysOf(id: string): KeysetKeys {
  return { id, keys: { 1: `02${'11'.repeat(32)}` } };
}
