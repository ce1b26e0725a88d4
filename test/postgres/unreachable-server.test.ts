import { sql } from 'kysely';
import { expect, it, onTestFinished, vi } from 'vitest';
import { createTestDatabase } from '../helpers/database.ts';
import { NutpostProcess, runNutpostCommand } from '../helpers/nutpost-process.ts';
import { TEST_JWT_SECRET } from '../helpers/test-environment.ts';
import { TestWallet } from '../helpers/test-wallet.ts';

/** Error messages for a PostgreSQL server that is unreachable or misconfigured. */

/** A start takes a second, and many times that on a busy machine. */
const START_MS = 60_000;

const PASSWORD = 'a-password-that-nobody-must-see';

it.each([
  ['at whose port nobody listens', `postgres://nutpost:${PASSWORD}@127.0.0.1:1/nutpost`],
  ['whose name may have several addresses', `postgres://nutpost:${PASSWORD}@localhost:1/nutpost`],
  ['whose address cannot be one', `postgres://nutpost:${PASSWORD}@127.0.0.1:99999/nutpost`],
])('a server %s is told of in one sentence, without the password', async (_what, url) => {
  await expectOneSentence(url, /^DATABASE_URL: the database cannot be reached \([^)]+\)\.\n$/);
});

it('names the database that does not exist', async () => {
  const { location, drop } = await createTestDatabase();
  await drop();
  const url = new URL('url' in location ? location.url : 'postgres://needs-a-server');
  const name = url.pathname.slice(1);
  await expectOneSentence(
    url.href,
    new RegExp(`^DATABASE_URL: the database cannot be reached \\(database "${name}" .+\\)\\.\n$`),
  );
});

it('ends a command with one sentence if its connection is lost', async () => {
  const { location, open, drop } = await createTestDatabase();
  const database = await open();
  onTestFinished(async () => {
    await database.close();
    await drop();
  });
  const ending = await database.db.transaction().execute(async (tx) => {
    await sql`lock table users in access exclusive mode`.execute(tx);
    const { npub } = new TestWallet('http://localhost');
    const command = runNutpostCommand(['user', 'block', npub], {
      DATABASE_URL: 'url' in location ? location.url : '',
      JWT_SECRET: TEST_JWT_SECRET,
    });
    await vi.waitFor(async () => {
      const { rows } = await sql`
        select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'
      `.execute(database.db);
      expect(rows).not.toEqual([]);
    }, START_MS);
    return await command;
  });
  expect(ending).toEqual({
    code: 1,
    stdout: '',
    stderr: 'The database is unavailable: terminating connection due to administrator command.\n',
  });
});

async function expectOneSentence(url: string, sentence: RegExp): Promise<void> {
  const service = new NutpostProcess('serve', {
    DATABASE_URL: url,
    JWT_SECRET: TEST_JWT_SECRET,
    LOG_LEVEL: 'trace',
  });
  const ending = await service.waitForExit();
  expect(ending).toEqual({ code: 1, signal: null, stderr: expect.stringMatching(sentence) });
  expect(ending.stderr).not.toContain(PASSWORD);
}
