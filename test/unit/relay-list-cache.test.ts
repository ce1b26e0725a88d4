import { describe, expect, it } from 'vitest';
import type { RelayQueryResult } from '../../src/zaps/relay-connection.ts';
import { RelayListCache } from '../../src/zaps/relay-list-cache.ts';

/** `test/acceptance/nip05-relays.test.ts` covers the lookups. */

const PUBKEY = 'a'.repeat(64);
const ONE = 'wss://one.example';
const TWO = 'wss://two.example';
const MINUTE_MS = 60_000;

describe('RelayListCache', () => {
  it('queries relays again after an hour and serves cached relays until then', async () => {
    const setup = createCache({ [ONE]: list('wss://first.example'), [TWO]: { outcome: 'none' } });
    expect(await setup.relays()).toEqual(['wss://first.example']);
    setup.answers[ONE] = list('wss://second.example', 2);
    setup.advance(59 * MINUTE_MS);
    expect(await setup.relays()).toEqual(['wss://first.example']);
    expect(setup.queries).toBe(2);
    setup.advance(2 * MINUTE_MS);
    expect(await setup.relays()).toEqual(['wss://first.example']);
    await expect.poll(() => setup.relays()).toEqual(['wss://second.example']);
    expect(setup.queries).toBe(4);
  });

  it.each([
    ['none was found', { outcome: 'none' }],
    ['a relay did not answer', { outcome: 'no_response' }],
  ] as const)('queries relays again after a minute if %s', async (_what, answer) => {
    const setup = createCache({ [ONE]: answer, [TWO]: { outcome: 'none' } });
    expect(await setup.relays()).toEqual([]);
    expect(await setup.relays()).toEqual([]);
    expect(setup.queries).toBe(2);
    setup.answers[ONE] = list('wss://first.example');
    setup.advance(2 * MINUTE_MS);
    await expect.poll(() => setup.relays()).toEqual(['wss://first.example']);
  });

  it('keeps the relays while no relay responds', async () => {
    const setup = createCache({ [ONE]: list('wss://first.example'), [TWO]: { outcome: 'none' } });
    await setup.relays();
    setup.answers[ONE] = { outcome: 'no_response' };
    setup.advance(61 * MINUTE_MS);
    await setup.relays();
    await expect.poll(() => setup.queries).toBe(4);
    expect(await setup.relays()).toEqual(['wss://first.example']);
  });
});

function createCache(answers: Record<string, RelayQueryResult>) {
  // The cache treats the time 0 as unset.
  let nowMs = 1;
  const setup = {
    answers,
    queries: 0,
    advance: (durationMs: number) => {
      nowMs += durationMs;
    },
    relays: () => recipientRelays.findWriteRelays(PUBKEY),
  };
  const recipientRelays = new RelayListCache({
    pool: {
      query: async (url) => {
        setup.queries += 1;
        return setup.answers[url] ?? { outcome: 'no_response' };
      },
    },
    operatorRelays: Object.keys(answers),
    allowPrivateNetworks: false,
    monotonicMs: () => nowMs,
  });
  return setup;
}

function list(relay: string, createdAt = 1): RelayQueryResult {
  const event = { id: 'b'.repeat(64), pubkey: PUBKEY, sig: 'c'.repeat(128), content: '' };
  const tags = [['r', relay]];
  return { outcome: 'found', event: { ...event, kind: 10_002, created_at: createdAt, tags } };
}
