import { decodeJwt } from 'jose';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { Service } from '../../src/service.ts';
import { startBeside } from '../helpers/second-service.ts';
import { type ApiAnswer, request, type TestWallet } from '../helpers/wallet.ts';
import { openWorld, TEST_JWT_SECRET, type World } from '../helpers/world.ts';

/** How an operator changes `JWT_SECRET` without signing anybody out. */

const NEXT_SECRET = 'the next secret for tests, of 32 letters and more';

let world: World;
let wallet: TestWallet;

beforeAll(async () => {
  world = await openWorld();
  wallet = world.newWallet();
});

afterAll(() => world.close());

describe('a change of JWT_SECRET', () => {
  it('keeps tokens of the old secret good while it is JWT_SECRET_PREVIOUS, and signs with the new', async () => {
    const old = await tokenOf(world.service);
    const changed = await start({
      JWT_SECRET: NEXT_SECRET,
      JWT_SECRET_PREVIOUS: TEST_JWT_SECRET,
    });
    expect(await userAt(changed, old)).toMatchObject({ status: 200 });
    const fresh = await tokenOf(changed);
    expect(await userAt(changed, fresh)).toMatchObject({ status: 200 });
    expect((await userAt(world.service, fresh)).status).toBe(401);
  });

  it('ends the tokens of the old secret once that is forgotten', async () => {
    const old = await tokenOf(world.service);
    const done = await start({ JWT_SECRET: NEXT_SECRET });
    const { status, headers, body } = await userAt(done, old);
    expect({ status, body }).toEqual({
      status: 401,
      body: { error: true, message: 'The token is invalid or expired.' },
    });
    expect(headers.get('www-authenticate')).toBe('Nostr, Bearer');
    expect((await userAt(done, await tokenOf(done))).status).toBe(200);
  });

  it('signs nobody out where one process after another has it, and each knows both', async () => {
    const before = await start({ JWT_SECRET_PREVIOUS: NEXT_SECRET });
    const after = await start({ JWT_SECRET: NEXT_SECRET, JWT_SECRET_PREVIOUS: TEST_JWT_SECRET });
    expect((await userAt(after, await tokenOf(before))).status).toBe(200);
    expect((await userAt(before, await tokenOf(after))).status).toBe(200);
  });
});

async function start(env: Record<string, string>): Promise<Service> {
  const service = await startBeside(world, env);
  onTestFinished(() => service.stop());
  return service;
}

async function tokenOf(service: Service): Promise<string> {
  const { body } = await wallet.at(service.publicOrigin).get('/api/v2/auth/nip98');
  expect(decodeJwt(body.data.token)).toMatchObject({ iss: 'nutpost', sub: wallet.pubkey });
  return body.data.token;
}

function userAt({ url }: Service, token: string): Promise<ApiAnswer> {
  return request(url, '/api/v2/user/info', { headers: { authorization: `Bearer ${token}` } });
}
