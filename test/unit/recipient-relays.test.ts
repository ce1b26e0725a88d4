import { describe, expect, it } from 'vitest';
import { RecipientRelays } from '../../src/zaps/recipient-relays.ts';
import type { QueryResult } from '../../src/zaps/relay-connection.ts';

/** What is cached; the lookups themselves are in `acceptance/nip05-relays`. */

const PUBKEY = 'a'.repeat(64);
const ONE = 'wss://one.example';
const TWO = 'wss://two.example';
const MINUTE_MS = 60_000;

describe('the relays of a recipient', () => {
  it('are looked up again after an hour, and served from the cache meanwhile', async () => {
    const world = newWorld({ [ONE]: list('wss://first.example'), [TWO]: { outcome: 'none' } });
    expect(await world.relays()).toEqual(['wss://first.example']);
    world.answers[ONE] = list('wss://second.example', 2);
    world.advance(59 * MINUTE_MS);
    expect(await world.relays()).toEqual(['wss://first.example']);
    expect(world.queries).toBe(2);
    world.advance(2 * MINUTE_MS);
    expect(await world.relays()).toEqual(['wss://first.example']);
    await expect.poll(() => world.relays()).toEqual(['wss://second.example']);
    expect(world.queries).toBe(4);
  });

  it.each([
    ['none was found', { outcome: 'none' }],
    ['a relay did not answer', { outcome: 'unanswered' }],
  ] as const)('are looked up again after a minute if %s', async (_what, answer) => {
    const world = newWorld({ [ONE]: answer, [TWO]: { outcome: 'none' } });
    expect(await world.relays()).toEqual([]);
    expect(await world.relays()).toEqual([]);
    expect(world.queries).toBe(2);
    world.answers[ONE] = list('wss://first.example');
    world.advance(2 * MINUTE_MS);
    await expect.poll(() => world.relays()).toEqual(['wss://first.example']);
  });

  it('stay known while no relay answers', async () => {
    const world = newWorld({ [ONE]: list('wss://first.example'), [TWO]: { outcome: 'none' } });
    await world.relays();
    world.answers[ONE] = { outcome: 'unanswered' };
    world.advance(61 * MINUTE_MS);
    await world.relays();
    await expect.poll(() => world.queries).toBe(4);
    expect(await world.relays()).toEqual(['wss://first.example']);
  });
});

function newWorld(answers: Record<string, QueryResult>) {
  // The cache takes 0 for a time that was never set.
  let nowMs = 1;
  const world = {
    answers,
    queries: 0,
    advance: (durationMs: number) => {
      nowMs += durationMs;
    },
    relays: () => recipientRelays.of(PUBKEY),
  };
  const recipientRelays = new RecipientRelays({
    pool: {
      query: async (url) => {
        world.queries += 1;
        return world.answers[url] ?? { outcome: 'unanswered' };
      },
    },
    relays: Object.keys(answers),
    allowPrivate: false,
    monotonicMs: () => nowMs,
  });
  return world;
}

function list(relay: string, createdAt = 1): QueryResult {
  const event = { id: 'b'.repeat(64), pubkey: PUBKEY, sig: 'c'.repeat(128), content: '' };
  const tags = [['r', relay]];
  return { outcome: 'found', event: { ...event, kind: 10_002, created_at: createdAt, tags } };
}
