import { describe, expect, it } from 'vitest';
import { parseRelays, RelayListCache } from '../../../src/relays/relay-list-cache.ts';
import type { RelayQueryResult } from '../../../src/relays/relay-pool.ts';

// test/acceptance/public-endpoints.test.ts covers the lookups.

const PUBKEY = 'a'.repeat(64);
const FIRST_RELAY = 'wss://one.example';
const SECOND_RELAY = 'wss://two.example';
const MINUTE_MS = 60_000;

describe('RelayListCache', () => {
  it('returns the cached relays for an hour and then queries the operator relays again', async () => {
    const harness = createCache({
      [FIRST_RELAY]: createRelayList('wss://first.example'),
      [SECOND_RELAY]: { outcome: 'none' },
    });
    expect(await harness.findRelays()).toEqual(['wss://first.example']);
    harness.results[FIRST_RELAY] = createRelayList('wss://second.example', 2);
    harness.advance(59 * MINUTE_MS);
    expect(await harness.findRelays()).toEqual(['wss://first.example']);
    expect(harness.queryCount).toBe(2);
    harness.advance(2 * MINUTE_MS);
    expect(await harness.findRelays()).toEqual(['wss://first.example']);
    await expect.poll(() => harness.findRelays()).toEqual(['wss://second.example']);
    expect(harness.queryCount).toBe(4);
  });

  it.each([
    ['the later list', createRelayList('wss://new.example', 2, 'b'), 'a'],
    [
      'of two of the same second, that with the lower id',
      createRelayList('wss://new.example'),
      'c',
    ],
  ])('returns %s, whichever relay has it', async (_case, newer, olderId) => {
    const older = createRelayList('wss://old.example', 1, olderId);
    for (const [first, second] of [
      [newer, older],
      [older, newer],
    ] as const) {
      const harness = createCache({ [FIRST_RELAY]: first, [SECOND_RELAY]: second });
      expect(await harness.findRelays()).toEqual(['wss://new.example']);
    }
  });
});

describe('parseRelays', () => {
  const parse = (tags: string[][]) =>
    parseRelays(tags, { kind: 10_002, allowPrivateNetworks: false });

  it('returns the normalised relays that the owner writes to, once each, without invalid ones', () => {
    const tags = [
      ['r', 'wss://Both.example/'],
      ['r', 'wss://reads.example', 'read'],
      ['r', 'wss://writes.example', 'write'],
      ['r', 'wss://both.example:443', ''],
      ['r', 'wss://unknown.example', 'sometimes'],
      ['p', 'wss://no.example'],
      ...[['r'], ['r', ''], ['r', 'https://one.example'], ['r', 'wss://127.0.0.1']],
    ];
    expect(parse(tags)).toEqual(['wss://both.example', 'wss://writes.example']);
    expect(parse([])).toEqual([]);
  });

  it('returns the relays at which their owner reads private messages', () => {
    const tags = [
      ['relay', 'wss://inbox.example/'],
      ['r', 'wss://no.example'],
      ['relay', 'wss://10.0.0.1'],
    ];
    expect(parseRelays(tags, { kind: 10_050, allowPrivateNetworks: false })).toEqual([
      'wss://inbox.example',
    ]);
  });

  it('returns at most ten relays, from the first hundred tags', () => {
    const tags = Array.from({ length: 10_000 }, (_, index) => ['r', `wss://r${index}.example`]);
    expect(parse(tags)).toEqual(tags.slice(0, 10).map(([, url]) => url));
    const readTags = Array.from({ length: 100 }, () => ['r', 'wss://reads.example', 'read']);
    const writeTag = ['r', 'wss://writes.example'];
    expect(parse([...readTags.slice(1), writeTag])).toEqual(['wss://writes.example']);
    expect(parse([...readTags, writeTag])).toEqual([]);
  });
});

function createCache(results: Record<string, RelayQueryResult>) {
  // The cache treats the time 0 as unset.
  let nowMs = 1;
  const harness = {
    results,
    queryCount: 0,
    advance: (durationMs: number) => {
      nowMs += durationMs;
    },
    findRelays: async () => (await cache.find(PUBKEY)).relays,
  };
  const cache = new RelayListCache({
    kind: 10_002,
    allowStale: true,
    relayPool: {
      query: async (url: string) => {
        harness.queryCount += 1;
        return harness.results[url] ?? { outcome: 'no_response' };
      },
    },
    operatorRelays: Object.keys(results),
    allowPrivateNetworks: false,
    monotonicMs: () => nowMs,
  });
  return harness;
}

function createRelayList(relay: string, createdAt = 1, idDigit = 'b'): RelayQueryResult {
  const event = { id: idDigit.repeat(64), pubkey: PUBKEY, sig: 'c'.repeat(128), content: '' };
  const tags = [['r', relay]];
  return { outcome: 'found', event: { ...event, kind: 10_002, created_at: createdAt, tags } };
}
