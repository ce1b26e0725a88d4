import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectOneWinner, raceForName } from '../helpers/username-race.ts';
import { openWorld, type World } from '../helpers/world.ts';

/** A power of two, so that a token is one proof. */
const PRICE_SAT = 16;

/** Two hundred purchases, and the tokens for them. With fifty keys: test/postgres. */
const TEST_TIMEOUT_MS = 120_000;

let world: World;

beforeAll(async () => {
  world = await openWorld({ env: { USERNAME_PRICE_SAT: String(PRICE_SAT) } });
});

afterAll(() => world.close());

describe('two hundred purchases of one name at the same moment', () => {
  it(
    'have one winner, and everybody else keeps a token that can be spent',
    async () => {
      const entries = await raceForName(world.mint, [world.base], 'wanted', {
        priceSat: PRICE_SAT,
        keys: 10,
      });
      expect(entries).toHaveLength(200);
      expect(world.mint.requestCounts['POST /v1/swap']).toBe(1);
      await expectOneWinner(world.mint, [world.base], 'wanted', entries);
    },
    TEST_TIMEOUT_MS,
  );
});
