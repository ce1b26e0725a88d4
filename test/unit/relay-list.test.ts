import { describe, expect, it } from 'vitest';
import { newerRelayList, parseRelayList, type RelayList } from '../../src/zaps/relay-list-cache.ts';

const OPEN = { allowPrivateNetworks: false };
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
    expect(relaysOf(tags)).toEqual([
      'wss://both.example',
      'wss://writes.example',
      'wss://both-too.example',
    ]);
  });

  it('returns each relay once, normalised', () => {
    const urls = [
      'wss://One.example/',
      'wss://one.example:443',
      ' wss://b.c/x ',
      'wss://b.c//%78/',
    ];
    expect(relaysOf(urls.map((url) => ['r', url]))).toEqual(['wss://one.example', 'wss://b.c/x']);
  });

  it.each([[['r']], [['r', '']], [['r', 'https://one.example']], [['r', 'wss://127.0.0.1']]])(
    'skips %j',
    (tag) => {
      expect(relaysOf([tag, ['r', 'wss://good.example']])).toEqual(['wss://good.example']);
    },
  );

  it('returns at most ten relays', () => {
    const tags = Array.from({ length: 10_000 }, (_, n) => ['r', `wss://relay-${n}.example`]);
    expect(relaysOf(tags)).toEqual(tags.slice(0, 10).map(([, url]) => url));
  });

  it('returns an empty list', () => {
    expect(parseRelayList(EVENT, OPEN)).toEqual({
      writeRelays: [],
      createdAt: 1_795_000_000,
      eventId: 'a',
    });
  });
});

it.each([
  ['the later list', listOf(2, 'b'), listOf(1, 'a')],
  ['the lower id of the same second', listOf(1, 'a'), listOf(1, 'b')],
])('newerRelayList returns %s', (_case, winner, loser) => {
  expect(newerRelayList(winner, loser)).toBe(winner);
  expect(newerRelayList(loser, winner)).toBe(winner);
});

function relaysOf(tags: string[][]): string[] {
  return parseRelayList({ ...EVENT, tags }, OPEN).writeRelays;
}

function listOf(createdAt: number, id: string): RelayList {
  return { writeRelays: [`wss://${id}.example`], createdAt, eventId: id };
}
