import { describe, expect, it } from 'vitest';
import {
  newerRelayList,
  parseRelayList,
  type RelayList,
} from '../../../src/zaps/relay-list-cache.ts';

const OPTIONS = { allowPrivateNetworks: false };
const EVENT = { id: 'a', created_at: 1_795_000_000, tags: [] };

describe('parseRelayList', () => {
  it('returns the relays that the owner writes to', () => {
    const tags = [
      ['r', 'wss://both.example'],
      ['r', 'wss://reads.example', 'read'],
      ['r', 'wss://writes.example', 'write'],
      ['r', 'wss://both-too.example', ''],
      ['r', 'wss://unknown.example', 'sometimes'],
      ['p', 'wss://no.example'],
      ['R', 'wss://nor-this.example'],
    ];
    expect(parseWriteRelays(tags)).toEqual([
      'wss://both.example',
      'wss://writes.example',
      'wss://both-too.example',
    ]);
  });

  it('normalises relay URLs and returns each relay once', () => {
    const urls = [
      'wss://One.example/',
      'wss://one.example:443',
      ' wss://b.c/x ',
      'wss://b.c//%78/',
    ];
    expect(parseWriteRelays(urls.map((url) => ['r', url]))).toEqual([
      'wss://one.example',
      'wss://b.c/x',
    ]);
  });

  it.each([[['r']], [['r', '']], [['r', 'https://one.example']], [['r', 'wss://127.0.0.1']]])(
    'skips the tag %j',
    (tag) => {
      expect(parseWriteRelays([tag, ['r', 'wss://good.example']])).toEqual(['wss://good.example']);
    },
  );

  it('returns at most ten relays', () => {
    const tags = Array.from({ length: 10_000 }, (_, index) => [
      'r',
      `wss://relay-${index}.example`,
    ]);
    expect(parseWriteRelays(tags)).toEqual(tags.slice(0, 10).map(([, url]) => url));
  });

  it('ignores all tags after the first hundred', () => {
    const tags = Array.from({ length: 100 }, () => ['r', 'wss://reads.example', 'read']);
    const writeRelay = ['r', 'wss://writes.example'];
    expect(parseWriteRelays([...tags.slice(1), writeRelay])).toEqual(['wss://writes.example']);
    expect(parseWriteRelays([...tags, writeRelay])).toEqual([]);
  });

  it('returns no relays for an event without tags', () => {
    expect(parseRelayList(EVENT, OPTIONS)).toEqual({
      writeRelays: [],
      createdAt: 1_795_000_000,
      eventId: 'a',
    });
  });
});

it.each([
  ['the later list', createRelayList(2, 'b'), createRelayList(1, 'a')],
  [
    'the list with the lower id if both are of the same second',
    createRelayList(1, 'a'),
    createRelayList(1, 'b'),
  ],
])('newerRelayList returns %s, in either argument order', (_case, preferred, other) => {
  expect(newerRelayList(preferred, other)).toBe(preferred);
  expect(newerRelayList(other, preferred)).toBe(preferred);
});

function parseWriteRelays(tags: string[][]): string[] {
  return parseRelayList({ ...EVENT, tags }, OPTIONS).writeRelays;
}

function createRelayList(createdAt: number, id: string): RelayList {
  return { writeRelays: [`wss://${id}.example`], createdAt, eventId: id };
}
