import { createHash, randomInt } from 'node:crypto';
import { afterEach, expect, it, vi } from 'vitest';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { DISABLED_LIMITS_ENV } from '../helpers/service/disabled-limits.ts';
import {
  type FuzzTargets,
  type FuzzUser,
  USER_AGENT,
} from './hostile-clients/malformed-request-cases.ts';
import { type FuzzResult, runFuzzer } from './hostile-clients/request-fuzzer.ts';
import {
  type ServiceUnderAttack,
  startServiceUnderAttack,
} from './hostile-clients/service-under-attack.ts';

/** Set `STORM_SEED` to repeat a run, whose seed this test prints. */
const seed = process.env['STORM_SEED'] ?? String(randomInt(1_000_000_000));
/** Number of requests and socket messages. */
const messageCount = Number(process.env['STORM_REQUESTS'] ?? 5_000);

vi.setConfig({ testTimeout: 600_000 });

const USER_COUNT = 8;

/** The first measurement of memory follows these requests, when code is compiled and caches are filled. */
const WARM_UP_SHARE = 0.2;

let service: ServiceUnderAttack;

afterEach(() => service.close());

it('answers malformed requests and messages as documented, and then releases all resources', async () => {
  const targets = await startServiceWithUsers();
  const warmUp = await sendFuzzedMessages(
    targets,
    Math.ceil(messageCount * WARM_UP_SHARE),
    'warm-up',
  );
  const usageBefore = await service.measureResourceUsage();
  const main = await sendFuzzedMessages(targets, messageCount - warmUp.sentCount, 'main run');
  expect([...describeProblems(warmUp), ...describeProblems(main)]).toEqual([]);
  expect(await service.readUnexpectedOutput()).toEqual([]);
  await service.runPaymentFlow();
  expect(await service.waitUntilReleased(usageBefore)).toEqual([]);
});

async function startServiceWithUsers(): Promise<FuzzTargets> {
  service = await startServiceUnderAttack({ USERNAME_PRICE_SAT: '21', ...DISABLED_LIMITS_ENV });
  const users = await Promise.all(
    Array.from({ length: USER_COUNT }, (_unused, index) => createUser(`${index}`)),
  );
  return { users, mintUrl: service.mint.url };
}

async function createUser(name: string): Promise<FuzzUser> {
  const secretKey = createHash('sha256').update(`key of ${seed}/${name}`).digest();
  const wallet = new RecipientClient(service.origin, Date.now, secretKey);
  const path = '/api/v2/auth/nip98';
  const headers = { authorization: wallet.signRequest(path), 'user-agent': USER_AGENT };
  const { body } = await requestJson(service.origin, path, { headers });
  return { wallet, jwt: body.data.token };
}

async function sendFuzzedMessages(
  targets: FuzzTargets,
  count: number,
  name: string,
): Promise<FuzzResult> {
  const { origin } = service;
  const result = await runFuzzer({ seed: `${seed}/${name}`, origin, count, targets });
  const statuses = [...result.statuses].map(([status, times]) => `${status}: ${times}`).toSorted();
  console.log(`${name}, seed ${seed}: ${result.sentCount} sent; ${statuses.join(', ')}`);
  return result;
}

function describeProblems({ problems }: FuzzResult): string[] {
  return [...problems].map(
    ([problem, examples]) => `${problem} (STORM_SEED=${seed}): ${examples.join('\n    ')}`,
  );
}
