import { describe, expect, it } from 'vitest';
import type { RelayQueryResult } from '../../../src/zaps/relay-connection.ts';
import { RelayListCache } from '../../../src/zaps/relay-list-cache.ts';

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
    ['no relay has a list', { outcome: 'none' }],
    ['a relay does not respond', { outcome: 'no_response' }],
  ] as const)('queries relays again after a minute if %s', async (_case, result) => {
    const harness = createCache({ [FIRST_RELAY]: result, [SECOND_RELAY]: { outcome: 'none' } });
    expect(await harness.findRelays()).toEqual([]);
    expect(await harness.findRelays()).toEqual([]);
    expect(harness.queryCount).toBe(2);
    harness.results[FIRST_RELAY] = createRelayList('wss://first.example');
    harness.advance(2 * MINUTE_MS);
    await expect.poll(() => harness.findRelays()).toEqual(['wss://first.example']);
  });

  it('keeps the cached relays if the relay with the list does not respond', async () => {
    const harness = createCache({
      [FIRST_RELAY]: createRelayList('wss://first.example'),
      [SECOND_RELAY]: { outcome: 'none' },
    });
    await harness.findRelays();
    harness.results[FIRST_RELAY] = { outcome: 'no_response' };
    harness.advance(61 * MINUTE_MS);
    await harness.findRelays();
    await expect.poll(() => harness.queryCount).toBe(4);
    expect(await harness.findRelays()).toEqual(['wss://first.example']);
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
    findRelays: () => cache.findWriteRelays(PUBKEY),
  };
  const cache = new RelayListCache({
    pool: {
      query: async (url) => {
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

function createRelayList(relay: string, createdAt = 1): RelayQueryResult {
  const event = { id: 'b'.repeat(64), pubkey: PUBKEY, sig: 'c'.repeat(128), content: '' };
  const tags = [['r', relay]];
  return { outcome: 'found', event: { ...event, kind: 10_002, created_at: createdAt, tags } };
}
