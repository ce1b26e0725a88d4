import { sql } from 'kysely';
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { openLog } from '../../src/log.ts';
import { startService } from '../../src/service.ts';
import { createTestDatabase } from '../helpers/database.ts';
import { eventually } from '../helpers/eventually.ts';
import { NOWHERE_MINT } from '../helpers/quotes.ts';
import { request } from '../helpers/wallet.ts';
import { testConfig } from '../helpers/world.ts';

/** What balancers are told of a process whose server goes away. */

it('a process is not ready while the database takes no connection, and is again by itself', async () => {
  const testDatabase = await createTestDatabase();
  const database = await testDatabase.open();
  const service = await startService(testConfig(NOWHERE_MINT), {
    database,
    log: openLog('silent'),
  });
  const server = new pg.Client({ connectionString: process.env['TEST_DATABASE_URL'] });
  await server.connect();
  onTestFinished(async () => {
    await service.stop();
    await database.close();
    await testDatabase.drop();
    await server.end();
  });
  const ready = () => request(service.url, '/health/ready');
  expect(await ready()).toMatchObject({ status: 200, body: { status: 'ready' } });

  const { rows } = await sql<{ name: string }>`select current_database() as name`.execute(
    database.db,
  );
  const name = pg.escapeIdentifier(rows[0]?.name ?? '');
  await server.query(`alter database ${name} with allow_connections false`);
  await server.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [
    rows[0]?.name,
  ]);
  await eventually(async () =>
    expect(await ready()).toMatchObject({
      status: 503,
      body: {
        status: 'failing',
        checks: { database: 'failing', migrations: 'unknown', listen: 'failing' },
      },
    }),
  );
  expect((await request(service.url, '/health/live')).status).toBe(200);

  await server.query(`alter database ${name} with allow_connections true`);
  await eventually(async () =>
    expect(await ready()).toMatchObject({ status: 200, body: { status: 'ready' } }),
  );
});
