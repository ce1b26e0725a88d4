import { createHash, randomInt } from 'node:crypto';
import { afterEach, expect, it, vi } from 'vitest';
import { NO_LIMITS } from '../helpers/no-limits.ts';
import { request, TestWallet } from '../helpers/wallet.ts';
import { type Stranger, type Surroundings, USER_AGENT } from './storm/hostile-requests.ts';
import { openStage, type Stage } from './storm/stage.ts';
import { runStorm, type StormResult } from './storm/storm.ts';

/**
 * Requests and socket messages that no client would send, from many clients at once. Each gets a
 * response as in spec.md, and the service goes on as before.
 *
 * `STORM_SEED` repeats a storm whose seed was printed; `STORM_REQUESTS` makes it shorter or longer.
 */

const seed = process.env['STORM_SEED'] ?? String(randomInt(1_000_000_000));
const requestCount = Number(process.env['STORM_REQUESTS'] ?? 5_000);

vi.setConfig({ testTimeout: 600_000 });

const STRANGERS = 8;

/** After these requests, code is compiled and caches are filled. */
const WARM_UP_SHARE = 0.2;

let stage: Stage;

afterEach(() => stage.close());

it('answers every malformed request as specified, and keeps nothing of it', async () => {
  const around = await surroundings();
  const warmUp = await storm(around, Math.ceil(requestCount * WARM_UP_SHARE), 'warm-up');
  const before = await stage.holdings();
  const rest = await storm(around, requestCount - warmUp.sent, 'storm');
  expect([...problemsIn(warmUp), ...problemsIn(rest)]).toEqual([]);
  expect(await stage.complaints()).toEqual([]);
  await stage.wholePayment();
  expect(await stage.letGo(before)).toEqual([]);
});

async function surroundings(): Promise<Surroundings> {
  stage = await openStage({ USERNAME_PRICE_SAT: '21', ...NO_LIMITS });
  const strangers = await Promise.all(
    Array.from({ length: STRANGERS }, (_unused, index) => newStranger(`${index}`)),
  );
  return { strangers, mintUrl: stage.mint.url };
}

async function newStranger(name: string): Promise<Stranger> {
  const secretKey = createHash('sha256').update(`key of ${seed}/${name}`).digest();
  const wallet = new TestWallet(stage.origin, Date.now, secretKey);
  const path = '/api/v2/auth/nip98';
  const headers = { authorization: wallet.sign(path), 'user-agent': USER_AGENT };
  const { body } = await request(stage.origin, path, { headers });
  return { wallet, jwt: body.data.token };
}

async function storm(around: Surroundings, count: number, name: string): Promise<StormResult> {
  const { origin } = stage;
  const result = await runStorm({ seed: `${seed}/${name}`, origin, count, around });
  const statuses = [...result.statuses].map(([status, times]) => `${status}: ${times}`).toSorted();
  console.log(`${name}, seed ${seed}: ${result.sent} sent; ${statuses.join(', ')}`);
  return result;
}

function problemsIn({ problems }: StormResult): string[] {
  return [...problems].map(
    ([problem, examples]) => `${problem} (STORM_SEED=${seed}): ${examples.join('\n    ')}`,
  );
}
