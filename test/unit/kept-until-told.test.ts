import { beforeEach, describe, expect, it } from 'vitest';
import { KeptUntilTold } from '../../src/usecases/kept-until-told.ts';

/** What was read of the database, and is kept until its change is told. */

/** A value of this test: what it is about, and how it is now. */
interface Value {
  subjects: string[];
  text: string;
}

const LIFE_MS = 5_000;
const MAX = 3;
const TOO_LONG = 'a text that is too long to be kept';

let nowMs: number;
let isHearing: boolean;
/** What was read, in order. */
let reads: string[];
/** What the database would say. */
let database: Record<string, Value | null>;
let kept: KeptUntilTold<string, Value>;

beforeEach(() => {
  nowMs = 1_000;
  isHearing = true;
  reads = [];
  database = {
    npub: { subjects: ['alice'], text: 'mint a' },
    name: { subjects: ['alice'], text: 'mint a' },
    other: { subjects: ['bob'], text: 'mint b' },
  };
  kept = new KeptUntilTold({
    subjectsOf: ({ subjects }) => subjects,
    canKeep: ({ text }) => text !== TOO_LONG,
    max: MAX,
    lifeMs: LIFE_MS,
    isHearing: () => isHearing,
    monotonicMs: () => nowMs,
  });
});

async function get(key: string): Promise<Value | null> {
  return await kept.get(key, async () => {
    reads.push(key);
    return database[key] ?? null;
  });
}

/** Tells of more subjects than are kept. */
function forgetMany(): void {
  for (let other = 0; other <= MAX; other += 1) {
    kept.forget(`other${other}`);
  }
}

/** Reads something, which takes until the answer is given. */
function getSlowly(key: string) {
  const { promise, resolve, reject } = Promise.withResolvers<Value | null>();
  return { got: kept.get(key, () => promise), answer: resolve, fail: reject };
}

describe('what is asked for again', () => {
  it('is read once', async () => {
    const first = await get('npub');
    expect(first).toEqual({ subjects: ['alice'], text: 'mint a' });
    expect(await get('npub')).toBe(first);
    expect(reads).toEqual(['npub']);
  });

  it('is read anew where there was nothing, or reading failed', async () => {
    expect(await get('nobody')).toBeNull();
    expect(await get('nobody')).toBeNull();
    expect(reads).toEqual(['nobody', 'nobody']);
    const { got, fail } = getSlowly('npub');
    fail(new Error('away'));
    await expect(got).rejects.toThrow('away');
    expect(await get('npub')).toEqual(database['npub']);
  });

  it('is read anew when its life is over, which began before it was read', async () => {
    const { got, answer } = getSlowly('npub');
    nowMs += LIFE_MS - 1;
    answer({ subjects: ['alice'], text: 'slow' });
    await got;
    expect(await get('npub')).toMatchObject({ text: 'slow' });
    nowMs += 1;
    expect(await get('npub')).toMatchObject({ text: 'mint a' });
    nowMs += LIFE_MS - 1;
    expect(await get('npub')).toMatchObject({ text: 'mint a' });
    expect(reads).toEqual(['npub']);
  });
});

describe('a change that is told', () => {
  it('has all keys of its subject read anew, and no others', async () => {
    for (const key of ['npub', 'name', 'other']) {
      await get(key);
    }
    reads = [];
    kept.forget('alice');
    for (const key of ['npub', 'name', 'other']) {
      await get(key);
    }
    expect(reads).toEqual(['npub', 'name']);
  });

  it('is of nobody who was asked for, and does nothing', async () => {
    await get('npub');
    kept.forget('carol');
    await get('npub');
    expect(reads).toEqual(['npub']);
  });

  it('may be of anybody', async () => {
    await get('npub');
    await get('other');
    kept.forgetAll();
    await get('npub');
    await get('other');
    expect(reads).toEqual(['npub', 'other', 'npub', 'other']);
  });

  it.each([
    ['the subject', () => kept.forget('alice')],
    ['anybody', () => kept.forgetAll()],
    ['more than can be known apart', () => forgetMany()],
  ])('of %s while it is read has it read again', async (_case, change) => {
    const { got, answer } = getSlowly('npub');
    change();
    answer({ subjects: ['alice'], text: 'from before' });
    expect(await got).toMatchObject({ text: 'from before' });
    expect(await get('npub')).toMatchObject({ text: 'mint a' });
    expect(await get('npub')).toMatchObject({ text: 'mint a' });
    expect(reads).toEqual(['npub']);
  });

  it.each([
    ['somebody else while it is read', () => kept.forget('carol')],
    ['nobody', () => undefined],
  ])('of %s is no reason to read it again', async (_case, change) => {
    const { got, answer } = getSlowly('npub');
    change();
    const value = { subjects: ['alice'], text: 'mint a' };
    answer(value);
    await got;
    expect(await get('npub')).toBe(value);
    expect(reads).toEqual([]);
  });

  it('before it is read is no reason to read it again, whatever else is read all the time', async () => {
    const other = getSlowly('other');
    kept.forget('alice');
    const value = await get('npub');
    expect(await get('npub')).toBe(value);
    expect(reads).toEqual(['npub']);
    other.answer(null);
    await other.got;
  });

  it('while two are read counts for the one that is answered last, too', async () => {
    const [one, two] = [getSlowly('npub'), getSlowly('name')];
    kept.forget('alice');
    for (const { got, answer } of [one, two]) {
      answer({ subjects: ['alice'], text: 'from before' });
      await got;
    }
    expect(await get('npub')).toMatchObject({ text: 'mint a' });
    expect(await get('name')).toMatchObject({ text: 'mint a' });
  });

  it.each(['alice', 'shop'])('of %s has all read anew that is about both', async (subject) => {
    database['shop'] = { subjects: ['alice', 'shop'], text: 'mint a' };
    await get('shop');
    kept.forget(subject);
    await get('shop');
    await get('shop');
    expect(reads).toEqual(['shop', 'shop']);
  });

  it('lets nobody who comes after it wait for what is being read since before', async () => {
    const { got, answer } = getSlowly('npub');
    kept.forget('alice');
    expect(await get('npub')).toMatchObject({ text: 'mint a' });
    answer({ subjects: ['alice'], text: 'from before' });
    await got;
    expect(await get('npub')).toMatchObject({ text: 'mint a' });
  });

  it('is of whoever has the key now, where it went from one to another', async () => {
    await get('name');
    nowMs += LIFE_MS;
    database['name'] = { subjects: ['bob'], text: 'mint b' };
    await get('name');
    reads = [];
    kept.forget('alice');
    await get('name');
    expect(reads).toEqual([]);
    kept.forget('bob');
    await get('name');
    expect(reads).toEqual(['name']);
  });
});

describe('while nothing is heard', () => {
  it('everything is read, and nothing is kept', async () => {
    await get('npub');
    isHearing = false;
    await get('npub');
    await get('other');
    expect(reads).toEqual(['npub', 'npub', 'other']);
    isHearing = true;
    await get('other');
    expect(reads).toEqual(['npub', 'npub', 'other', 'other']);
  });

  it('what was being read since before is served to no one after the gap', async () => {
    const { got, answer } = getSlowly('npub');
    isHearing = false;
    isHearing = true;
    kept.forgetAll();
    answer({ subjects: ['alice'], text: 'from before' });
    await got;
    expect(await get('npub')).toMatchObject({ text: 'mint a' });
  });
});

it('no more is kept than there is room for: what was read the longest ago makes way', async () => {
  for (const key of ['npub', 'name', 'other']) {
    await get(key);
  }
  database['new'] = { subjects: ['carol'], text: 'mint c' };
  await get('new');
  reads = [];
  for (const key of ['name', 'other', 'new', 'npub']) {
    await get(key);
  }
  expect(reads).toEqual(['npub']);
  // Of one that made way, nothing is left that could forget another.
  kept.forget('alice');
  reads = [];
  for (const key of ['other', 'new']) {
    await get(key);
  }
  expect(reads).toEqual([]);
});

it('what is too large is read each time', async () => {
  database['npub'] = { subjects: ['alice'], text: TOO_LONG };
  for (const _ of [1, 2]) {
    expect(await get('npub')).toMatchObject({ text: TOO_LONG });
  }
  expect(reads).toEqual(['npub', 'npub']);
});
