import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  type EcashClient,
  type EcashRequests,
  limitedEcashClient,
  type SwapAnswer,
} from '../../src/mint/ecash-client.ts';
import { createLimiter } from '../helpers/test-limiter.ts';

const MINT = 'https://mint.example';

/** Any answer of a mint that works; none of these tests looks into it. */
const FOUND = { outcome: 'not_found' } as const;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

describe('ecash requests to a mint', () => {
  it('leave a route alone while it rests, and no other', async () => {
    const world = createClient();
    world.answer = { outcome: 'rate_limited', retryAfterMs: 30_000 };
    await world.client.swap(MINT, [], []);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await world.client.swap(MINT, [], [])).toEqual({
      outcome: 'rate_limited',
      retryAfterMs: 20_000,
    });
    world.answer = FOUND;
    for (const ask of everythingElse(world.client)) {
      expect(await ask()).toBe(FOUND);
    }
    expect(world.finished.map(({ route }) => route)).toEqual([
      'swap',
      'keys',
      'keys',
      'state',
      'restore',
    ]);
  });

  it('wait for a short rest', async () => {
    const world = createClient();
    world.answer = { outcome: 'rate_limited', retryAfterMs: null };
    await world.client.swap(MINT, [], []);
    world.answer = FOUND;
    const swapped = world.client.swap(MINT, [], []);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(await swapped).toBe(FOUND);
  });

  it('are not repeated', async () => {
    const world = createClient();
    world.answer = { outcome: 'unavailable', reason: 'status 500' };
    expect(await world.client.swap(MINT, [], [])).toBe(world.answer);
    expect(world.finished).toHaveLength(1);
  });

  it('count a swap that was cut off as not sent only if the mint cannot have it', async () => {
    const world = createClient();
    world.answer = { outcome: 'unavailable', reason: 'closed', isUnsent: true };
    expect(await world.client.swap(MINT, [], [])).toEqual({
      outcome: 'rate_limited',
      retryAfterMs: 0,
    });
    world.answer = { outcome: 'unavailable', reason: 'closed' };
    expect(await world.client.swap(MINT, [], [])).toBe(world.answer);
    expect(world.finished).toEqual([]);
  });
});

/** A client of a mint that gives one answer to everything. */
function createClient() {
  const world = {
    answer: FOUND as
      | Extract<SwapAnswer, { outcome: 'rate_limited' | 'unavailable' }>
      | typeof FOUND,
  };
  const respond = async () => world.answer as never;
  const { limiter, finished } = createLimiter();
  const client = limitedEcashClient(
    {
      readKeysets: respond,
      readKeys: respond,
      swap: respond,
      checkState: respond,
      restore: respond,
    } satisfies EcashRequests as unknown as EcashClient,
    limiter,
  );
  return Object.assign(world, { client, finished });
}

/** All requests but a swap. */
function everythingElse(client: EcashRequests): (() => Promise<unknown>)[] {
  return [
    () => client.readKeysets(MINT),
    () => client.readKeys(MINT, '00aa'),
    () => client.checkState(MINT, []),
    () => client.restore(MINT, []),
  ];
}
