import { type RawBuilder, sql } from 'kysely';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { migrations } from '../../migrations/index.ts';
import packageJson from '../../package.json' with { type: 'json' };
import type { Service } from '../../src/service.ts';
import { createTestDatabase } from '../helpers/database.ts';
import { startBeside } from '../helpers/second-service.ts';
import { type ApiAnswer, request, TestWallet } from '../helpers/wallet.ts';
import { openWorld, type World } from '../helpers/world.ts';

/** What supervisors and balancers are told of a process. */

const UPTIME = expect.any(Number);
const { version } = packageJson;

let world: World;

beforeAll(async () => {
  world = await openWorld();
});

afterAll(() => world.close());

it('says that the process lives, of which version it is, and for how long it has run', async () => {
  const { status, headers, body } = await live(world.service);
  expect(status).toBe(200);
  expect(headers.get('cache-control')).toBe('no-store');
  expect(body).toEqual({ status: 'live', version, uptimeSeconds: UPTIME });
  expect(Number.isInteger(body.uptimeSeconds)).toBe(true);
});

it('says that it is ready, and tells of mints how many it watches, not which', async () => {
  await world.askInvoice(world.newWallet(), 21);
  const { status, headers, body } = await ready(world.service);
  expect(status).toBe(200);
  expect(headers.get('cache-control')).toBe('no-store');
  expect(body).toEqual({
    status: 'ready',
    version,
    uptimeSeconds: UPTIME,
    checks: { database: 'ok', migrations: 'ok', listen: 'ok' },
    mints: { watched: expect.any(Number), silent: 0 },
  });
});

it('is asked without a body too', async () => {
  for (const path of ['/health/live', '/health/ready']) {
    const { status, body } = await request(world.service.url, path, { method: 'HEAD' });
    expect([status, body]).toEqual([200, null]);
  }
});

it('answers as often as it is asked, also those who may ask nothing else any more', async () => {
  const service = await startBeside(world, { LIMIT_REQUESTS: '1' });
  onTestFinished(() => service.stop());
  await request(service.url, '/api/v2/info');
  expect((await request(service.url, '/api/v2/info')).status).toBe(429);
  for (let index = 0; index < 3; index += 1) {
    expect((await live(service)).status).toBe(200);
    expect((await ready(service)).status).toBe(200);
  }
});

it('is not ready where tables are missing, as in a backup that is older than the program', async () => {
  const newest = Object.keys(migrations).at(-1);
  const service = await startWith(sql`delete from kysely_migration where name = ${newest}`);
  const { status, body } = await ready(service);
  expect(status).toBe(503);
  expect(body).toMatchObject({
    status: 'failing',
    checks: { database: 'ok', migrations: 'failing', listen: 'ok' },
  });
});

it('is ready beside a newer program, which has changed tables already', async () => {
  const service = await startWith(
    sql`insert into kysely_migration values ('9999_of_tomorrow', 'now')`,
  );
  expect((await ready(service)).status).toBe(200);
});

it('stops by saying that it is not ready, while it still serves whoever comes', async () => {
  // All that is asked meanwhile has to fit in, on a slow machine too.
  const service = await startBeside(world, { STOP_DELAY_SECONDS: '3' });
  const wallet = new TestWallet(service.publicOrigin);
  const socket = await wallet.openSocket();
  const stopped = service.stop();

  const answer = await ready(service);
  expect(answer.status).toBe(503);
  expect(answer.body.status).toBe('stopping');
  // Nobody is to send the next request on a connection that is about to end.
  expect(answer.headers.get('connection')).toBe('close');
  expect((await live(service)).status).toBe(200);
  const invoice = await request(service.url, `/.well-known/lnurlp/${wallet.npub}?amount=21000`);
  expect(invoice).toMatchObject({ status: 200, body: { pr: expect.any(String) } });
  expect(await socket.drain()).toEqual([]);

  expect(await socket.next()).toMatchObject({ type: 'error' });
  await socket.closed();
  await stopped;
});

const live = (service: Service): Promise<ApiAnswer> => request(service.url, '/health/live');
const ready = (service: Service): Promise<ApiAnswer> => request(service.url, '/health/ready');

/** One more service, on a database of its own that was changed. */
async function startWith(change: RawBuilder<unknown>): Promise<Service> {
  const testDatabase = await createTestDatabase();
  const database = await testDatabase.open();
  await change.execute(database.db);
  const service = await startBeside(world, {}, { database });
  onTestFinished(async () => {
    await service.stop();
    await database.close();
    await testDatabase.drop();
  });
  return service;
}
