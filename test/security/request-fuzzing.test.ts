import { randomInt } from 'node:crypto';
import { afterEach, expect, it } from 'vitest';
import { SeededRandom } from '../../demo/test-mint/seeded-random.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { DISABLED_LIMITS_ENV } from '../helpers/service/disabled-limits.ts';
import { type FuzzUser, USER_AGENT } from './hostile-clients/malformed-request-cases.ts';
import { RequestFuzzer } from './hostile-clients/request-fuzzer.ts';
import {
  type ServiceUnderAttack,
  startServiceUnderAttack,
} from './hostile-clients/service-under-attack.ts';

/** Set `STORM_SEED` to repeat a run, whose seed this test prints. */
const seed = process.env['STORM_SEED'] ?? String(randomInt(1_000_000_000));

/** Requests before the first measurement of memory, and all. */
const WARM_UP_COUNT = 800;
const COUNT = 2_500;

let service: ServiceUnderAttack;

afterEach(() => service.close());

it('answers malformed requests as documented, and then releases all resources', async () => {
  console.log(`STORM_SEED=${seed}`);
  service = await startServiceUnderAttack({ USERNAME_PRICE_SAT: '21', ...DISABLED_LIMITS_ENV });
  const users = await Promise.all(Array.from({ length: 8 }, createUser));
  const { origin, mint } = service;
  const fuzzer = new RequestFuzzer(new SeededRandom(seed), origin, { users, mintUrl: mint.url });
  await fuzzer.sendUntil(WARM_UP_COUNT);
  const usageBefore = await service.measureResourceUsage();
  await fuzzer.sendUntil(COUNT);
  expect(Object.fromEntries(fuzzer.problems)).toEqual({});
  expect(await service.readUnexpectedOutput()).toEqual([]);
  await service.runPaymentFlow();
  expect(await service.waitUntilReleased(usageBefore)).toEqual([]);
});

async function createUser(): Promise<FuzzUser> {
  const wallet = new RecipientClient(service.origin);
  const path = '/api/v2/auth/nip98';
  const headers = { authorization: wallet.signRequest(path), 'user-agent': USER_AGENT };
  const { body } = await requestJson(service.origin, path, { headers });
  return { wallet, jwt: body.data.token };
}
