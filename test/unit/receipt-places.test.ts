import { describe, expect, it } from 'vitest';
import type { DueRelay } from '../../src/store/receipt-delivery-store.ts';
import { givePlaces, type Place } from '../../src/watcher/receipt-places.ts';

const PROVEN = { hasServed: true, failures: 0 };
const LAPSED = { hasServed: true, failures: 1 };
const FAILED = { hasServed: false, failures: 1 };
const NEW = { hasServed: false, failures: 0 };

function relays(count: number, what: Partial<DueRelay>, name = 'relay'): DueRelay[] {
  return Array.from({ length: count }, (_, index) => ({
    url: `wss://${name}-${index}.example`,
    waitingSinceMs: index,
    ...PROVEN,
    ...what,
  }));
}

function give(
  due: readonly DueRelay[],
  taken = new Map<string, Place>(),
  own: readonly string[] = [],
): string[] {
  const partyOf = (url: string) => new URL(url).hostname;
  const given = givePlaces(due, taken, { own: new Set(own), partyOf });
  for (const { relay, place } of given) {
    taken.set(relay.url, place);
  }
  return given.map(({ relay }) => relay.url);
}

describe('places', () => {
  it('go to those who wait the longest', () => {
    const waiting = relays(200, {}).toReversed();
    const given = give(waiting);
    expect(given).toHaveLength(128);
    expect(given[0]).toBe('wss://relay-0.example');
    expect(given.at(-1)).toBe('wss://relay-127.example');
  });

  it.each([
    ['never served and fail', FAILED, 16],
    ['are new', NEW, 32],
  ])('of relays that %s are few, and those that work do not wait for them', (_what, what, few) => {
    const taken = new Map<string, Place>();
    expect(give(relays(1_000, what, 'dead'), taken)).toHaveLength(few);
    expect(give([...relays(1_000, what, 'dead'), ...relays(5, {})], taken)).toHaveLength(5);
    expect(give(relays(1_000, what, 'dead'), taken)).toEqual([]);
  });

  it('of new relays are not taken by hosts that have failed before', () => {
    const waiting = [...relays(600, FAILED, 'dead'), ...relays(1, NEW, 'new')];
    expect(give(waiting)).toContain('wss://new-0.example');
  });

  it('are free again as a turn ends', () => {
    const taken = new Map<string, Place>();
    const dead = relays(17, FAILED, 'dead');
    give(dead, taken);
    taken.delete('wss://dead-7.example');
    expect(give(dead.slice(16), taken)).toEqual(['wss://dead-16.example']);
  });

  it('are one for each host of which nothing good is known, the longest waiting first', () => {
    const taken = new Map<string, Place>();
    const [one] = relays(1, NEW);
    const paths = ['/3', '/1', '/2'].map((path) => ({
      url: `wss://tarpit.example${path}`,
      waitingSinceMs: Number(path.slice(1)),
      ...FAILED,
    }));
    expect(give([...paths, ...relays(1, NEW)], taken)).toEqual([
      one?.url,
      'wss://tarpit.example/1',
    ]);
    expect(give(paths, taken)).toEqual([]);
    taken.delete('wss://tarpit.example/1');
    expect(give(paths.slice(0, 1), taken)).toEqual(['wss://tarpit.example/3']);
  });

  it('of relays that served and fail now are not those of hosts that strangers name', () => {
    const taken = new Map<string, Place>();
    give(relays(1_000, FAILED, 'tarpit'), taken);
    const popular = relays(1, { ...LAPSED, waitingSinceMs: 1_000 }, 'popular');
    expect(give([...relays(1_000, FAILED, 'tarpit'), ...popular], taken)).toEqual([
      popular[0]?.url,
    ]);
    expect(give(relays(1_000, LAPSED, 'lapsed'), taken)).toHaveLength(31);
    expect(give(relays(5, PROVEN, 'working'), taken)).toHaveLength(5);
  });

  it('are four for a host whose relays served, however many urls of it somebody names', () => {
    const taken = new Map<string, Place>();
    const spellings = Array.from({ length: 200 }, (_, index) => ({
      url: `wss://popular.example/?${index}`,
      waitingSinceMs: index,
      ...(index % 2 === 0 ? PROVEN : LAPSED),
    }));
    expect(give(spellings, taken)).toEqual(spellings.slice(0, 4).map(({ url }) => url));
    expect(give([...spellings, ...relays(5, PROVEN)], taken)).toHaveLength(5);
    taken.delete('wss://popular.example/?2');
    expect(give(spellings.slice(4), taken)).toEqual(['wss://popular.example/?4']);
    const own = 'wss://popular.example/?199';
    expect(give(spellings, taken, [own])).toEqual([own]);
  });

  it('are there for the operator’s relays, whatever is busy and however they failed', () => {
    const taken = new Map<string, Place>();
    give([...relays(200, {}), ...relays(200, FAILED, 'dead')], taken);
    const own = relays(3, FAILED, 'own');
    const urls = own.map(({ url }) => url);
    expect(give(own, taken, urls)).toEqual(urls);
  });

  it('are not given twice to one relay', () => {
    const taken = new Map<string, Place>();
    const [relay] = relays(1, {});
    expect(give([relay as DueRelay], taken)).toHaveLength(1);
    expect(give([relay as DueRelay], taken)).toEqual([]);
    expect(give([relay as DueRelay], taken, [relay?.url ?? ''])).toEqual([]);
  });
});
