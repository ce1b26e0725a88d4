import { createHash, randomInt } from 'node:crypto';
import { afterEach, expect, it, vi } from 'vitest';
import { NO_LIMITS } from '../helpers/no-limits.ts';
import { requestJson, TestWallet } from '../helpers/test-wallet.ts';
import { type FuzzResult, runFuzzer } from './storm/fuzzer.ts';
import { type FuzzTargets, type FuzzUser, USER_AGENT } from './storm/request-cases.ts';
import { type ServiceUnderAttack, startServiceUnderAttack } from './storm/service-under-attack.ts';

/**
 * Malformed requests and socket messages from many concurrent clients. Each gets a response as in spec.md, and the
 * service keeps working.
 *
 * `STORM_SEED` repeats a storm whose seed was printed; `STORM_REQUESTS` makes it shorter or longer.
 */

const seed = process.env['STORM_SEED'] ?? String(randomInt(1_000_000_000));
const requestCount = Number(process.env['STORM_REQUESTS'] ?? 5_000);

vi.setConfig({ testTimeout: 600_000 });

const STRANGERS = 8;

/** After these requests, code is compiled and caches are filled. */
const WARM_UP_SHARE = 0.2;

let stage: ServiceUnderAttack;

afterEach(() => stage.close());

it('responds to every malformed request as specified, and keeps no memory of it', async () => {
  const around = await surroundings();
  const warmUp = await storm(around, Math.ceil(requestCount * WARM_UP_SHARE), 'warm-up');
  const before = await stage.measureResourceUsage();
  const rest = await storm(around, requestCount - warmUp.sent, 'storm');
  expect([...problemsIn(warmUp), ...problemsIn(rest)]).toEqual([]);
  expect(await stage.readUnexpectedOutput()).toEqual([]);
  await stage.runPaymentFlow();
  expect(await stage.waitUntilReleased(before)).toEqual([]);
});

async function surroundings(): Promise<FuzzTargets> {
  stage = await startServiceUnderAttack({ USERNAME_PRICE_SAT: '21', ...NO_LIMITS });
  const strangers = await Promise.all(
    Array.from({ length: STRANGERS }, (_unused, index) => newStranger(`${index}`)),
  );
  return { users: strangers, mintUrl: stage.mint.url };
}

async function newStranger(name: string): Promise<FuzzUser> {
  const secretKey = createHash('sha256').update(`key of ${seed}/${name}`).digest();
  const wallet = new TestWallet(stage.origin, Date.now, secretKey);
  const path = '/api/v2/auth/nip98';
  const headers = { authorization: wallet.signRequest(path), 'user-agent': USER_AGENT };
  const { body } = await requestJson(stage.origin, path, { headers });
  return { wallet, jwt: body.data.token };
}

async function storm(around: FuzzTargets, count: number, name: string): Promise<FuzzResult> {
  const { origin } = stage;
  const result = await runFuzzer({ seed: `${seed}/${name}`, origin, count, targets: around });
  const statuses = [...result.statuses].map(([status, times]) => `${status}: ${times}`).toSorted();
  console.log(`${name}, seed ${seed}: ${result.sent} sent; ${statuses.join(', ')}`);
  return result;
}

function problemsIn({ problems }: FuzzResult): string[] {
  return [...problems].map(
    ([problem, examples]) => `${problem} (STORM_SEED=${seed}): ${examples.join('\n    ')}`,
  );
}
