import { describe, expect, it } from 'vitest';
import { newerList, type RelayList, readRelayList } from '../../src/domain/relay-list.ts';

/** NIP-65. */

const OPEN = { allowPrivate: false };

describe('a published relay list', () => {
  it('names where its owner writes, which is where they are found', () => {
    const tags = [
      ['r', 'wss://both.example'],
      ['r', 'wss://reads.example', 'read'],
      ['r', 'wss://writes.example', 'write'],
      ['r', 'wss://both-too.example', ''],
      ['r', 'wss://unknown.example', 'sometimes'],
      ['p', 'wss://no.example'],
      ['R', 'wss://nor-this.example'],
    ];
    expect(relaysOf(tags)).toEqual([
      'wss://both.example',
      'wss://writes.example',
      'wss://both-too.example',
    ]);
  });

  it('says each relay once, as it is known here', () => {
    const tags = [
      'wss://One.example/',
      'wss://one.example:443',
      'wss://one.example',
      ' wss://b.c/x ',
      'wss://b.c//%78/',
    ];
    expect(relaysOf(tags.map((url) => ['r', url]))).toEqual(['wss://one.example', 'wss://b.c/x']);
  });

  it.each([
    ['no relay at all', ['r']],
    ['an empty one', ['r', '']],
    ['what is no address', ['r', 'relay']],
    ['a web page', ['r', 'https://one.example']],
    ['a relay without TLS', ['r', 'ws://one.example']],
    ['a private one', ['r', 'wss://127.0.0.1']],
    ['one of this machine', ['r', 'wss://localhost']],
    ['an endless one', ['r', `wss://one.example/${'x'.repeat(300)}`]],
  ])('passes over %s', (_what, tag) => {
    expect(relaysOf([tag, ['r', 'wss://good.example']])).toEqual(['wss://good.example']);
  });

  it('may name private relays in development', () => {
    const event = { ...EVENT, tags: [['r', 'ws://127.0.0.1:7777']] };
    expect(readRelayList(event, { allowPrivate: true })?.relays).toEqual(['ws://127.0.0.1:7777']);
  });

  it('is read up to ten relays, however long it is', () => {
    const tags = Array.from({ length: 10_000 }, (_, n) => ['r', `wss://relay-${n}.example`]);
    expect(relaysOf(tags)).toEqual(tags.slice(0, 10).map(([, url]) => url));
  });

  it('may be empty', () => {
    expect(readRelayList(EVENT, OPEN)).toEqual({ relays: [], createdAt: 1_795_000_000, id: 'a' });
  });

  it.each([
    ['of another kind', { kind: 3 }],
    ['without tags', { tags: undefined }],
    ['with tags that are no list', { tags: { r: 'wss://one.example' } }],
    ['with a tag that is no list', { tags: [['r', 'wss://one.example'], 'r'] }],
    ['with a tag of other things', { tags: [['r', { url: 'wss://one.example' }]] }],
    ['of a time that is none', { created_at: '1795000000' }],
    ['without an id', { id: undefined }],
  ])('is none where the event is %s', (_what, fields) => {
    expect(readRelayList({ ...EVENT, ...fields }, OPEN)).toBeNull();
  });

  it.each([[null], [undefined], ['list'], [7], [[]]])('is none where it is %j', (event) => {
    expect(readRelayList(event, OPEN)).toBeNull();
  });
});

describe('of two lists', () => {
  it('the later one counts', () => {
    const [older, newer] = [listOf(1, 'a'), listOf(2, 'b')];
    expect(newerList(older, newer)).toBe(newer);
    expect(newerList(newer, older)).toBe(newer);
  });

  it('of the same second, every relay agrees on the lower id', () => {
    const [low, high] = [listOf(1, 'a'), listOf(1, 'b')];
    expect(newerList(low, high)).toBe(low);
    expect(newerList(high, low)).toBe(low);
  });
});

const EVENT = { kind: 10_002, id: 'a', created_at: 1_795_000_000, tags: [] as unknown };

function relaysOf(tags: string[][]): string[] | undefined {
  return readRelayList({ ...EVENT, tags }, OPEN)?.relays;
}

function listOf(createdAt: number, id: string): RelayList {
  return { relays: [`wss://${id}.example`], createdAt, id };
}
