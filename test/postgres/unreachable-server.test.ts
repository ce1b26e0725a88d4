import { sql } from 'kysely';
import { expect, it, onTestFinished, vi } from 'vitest';
import { createTestDatabase } from '../helpers/database/test-database.ts';
import { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { NutpostProcess, runNutpostCommand } from '../helpers/service/nutpost-process.ts';
import { TEST_JWT_SECRET } from '../helpers/service/test-environment.ts';

const START_TIMEOUT_MS = 60_000;

const PASSWORD = 'a-secret-password';

it('stops the service with a one-line error without the password', async () => {
  const url = `postgres://nutpost:${PASSWORD}@127.0.0.1:1/nutpost`;
  await expectExitWithError(url, /^DATABASE_URL: the database cannot be reached \([^)]+\)\.\n$/);
});

it('stops the service with an error that names the database if it does not exist', async () => {
  const { location, drop } = await createTestDatabase();
  await drop();
  const url = new URL('url' in location ? location.url : 'postgres://needs-a-server');
  const name = url.pathname.slice(1);
  await expectExitWithError(
    url.href,
    new RegExp(`^DATABASE_URL: the database cannot be reached \\(database "${name}" .+\\)\\.\n$`),
  );
});

it('ends a command with a one-line error if its connection is lost', async () => {
  const { location, open, drop } = await createTestDatabase();
  const database = await open();
  onTestFinished(async () => {
    await database.close();
    await drop();
  });
  const commandResult = await database.db.transaction().execute(async (tx) => {
    await sql`lock table users in access exclusive mode`.execute(tx);
    const { npub } = new RecipientClient('http://localhost');
    const command = runNutpostCommand(['user', 'block', npub], {
      DATABASE_URL: 'url' in location ? location.url : '',
      JWT_SECRET: TEST_JWT_SECRET,
    });
    // Ends the connection of the command, which waits for the lock.
    await vi.waitFor(async () => {
      const { rows } = await sql`
        select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'
      `.execute(database.db);
      expect(rows).not.toEqual([]);
    }, START_TIMEOUT_MS);
    return await command;
  });
  expect(commandResult).toEqual({
    code: 1,
    stdout: '',
    stderr: 'The database is unavailable: terminating connection due to administrator command.\n',
  });
});

async function expectExitWithError(url: string, message: RegExp): Promise<void> {
  const service = new NutpostProcess('serve', {
    DATABASE_URL: url,
    JWT_SECRET: TEST_JWT_SECRET,
    LOG_LEVEL: 'trace',
  });
  const exit = await service.waitForExit();
  expect(exit).toEqual({ code: 1, signal: null, stderr: expect.stringMatching(message) });
  expect(exit.stderr).not.toContain(PASSWORD);
}
