import { expect, it, onTestFinished } from 'vitest';
import { EcashPayer } from '../helpers/ecash-payer.ts';
import { startBeside } from '../helpers/second-service.ts';
import { buyUsername } from '../helpers/username-buyer.ts';
import { openWorld } from '../helpers/world.ts';

/** A wallet that repeats its request through a load balancer reaches any of the processes. */

const PRICE_SAT = 16;
const NAMES = 12;
const REQUESTS_FOR_EACH = 10;

it('the same token, sent again and again to two processes at a time, always buys the same', async () => {
  const env = { USERNAME_PRICE_SAT: String(PRICE_SAT) };
  const world = await openWorld({ env });
  onTestFinished(() => world.close());
  const second = await startBeside(world, env);
  onTestFinished(() => second.stop());
  const payer = await EcashPayer.open(world.mint);
  const bases = [world.base, second.publicOrigin];

  const tokens = await Promise.all(Array.from({ length: NAMES }, () => payer.token(PRICE_SAT)));
  const answers = await Promise.all(
    tokens.flatMap((token, name) => {
      const wallet = world.newWallet();
      return Array.from({ length: REQUESTS_FOR_EACH }, (_, index) =>
        buyUsername(wallet.at(bases[index % 2] ?? ''), `name${name}`, token),
      );
    }),
  );

  const told = answers.map(({ status, body }) => `${status} ${body.message ?? ''}`);
  expect(new Set(told)).toEqual(new Set(['201 ']));
  expect(world.mint.requestCounts['POST /v1/swap']).toBe(NAMES);
}, 180_000);

it('keys that ask for each other’s free names at one moment are all answered', async () => {
  const world = await openWorld({ env: { USERNAME_PRICE_SAT: '0' } });
  onTestFinished(() => world.close());
  const told: number[] = [];
  for (let round = 0; round < 15; round += 1) {
    const wallets = [1, 2, 3].map(() => world.newWallet());
    const names = ['x', 'y', 'z'].map((letter) => `${letter}name${round}`);
    // Each begins with another name, and ends with the one that the next has begun with.
    const asked = wallets.flatMap((wallet, first) =>
      names.map((_, step) => ({ wallet, name: names[(first + step) % 3] ?? '' })),
    );
    const answers = await Promise.all(asked.map(({ wallet, name }) => buyUsername(wallet, name)));
    told.push(...answers.map(({ status }) => status));
  }
  expect(new Set(told)).toEqual(new Set([201, 409]));
}, 180_000);
