import { expect, it } from 'vitest';
import { createTestDatabase } from '../helpers/database.ts';
import { NutpostProcess } from '../helpers/nutpost-process.ts';
import { TEST_JWT_SECRET } from '../helpers/world.ts';

/** What an operator is told who named a PostgreSQL server that is not there, or not as it has to be. */

const PASSWORD = 'a-password-that-nobody-must-see';

it.each([
  ['at whose port nobody listens', `postgres://nutpost:${PASSWORD}@127.0.0.1:1/nutpost`],
  ['whose name may have several addresses', `postgres://nutpost:${PASSWORD}@localhost:1/nutpost`],
  ['whose address cannot be one', `postgres://nutpost:${PASSWORD}@127.0.0.1:99999/nutpost`],
])('a server %s is told of in one sentence, without the password', async (_what, url) => {
  await expectOneSentence(url, /^DATABASE_URL: the database cannot be reached \([^)]+\)\.\n$/);
});

it('a database that a server does not have is told of by its name', async () => {
  const { location, drop } = await createTestDatabase();
  await drop();
  const url = new URL('url' in location ? location.url : 'postgres://needs-a-server');
  const name = url.pathname.slice(1);
  await expectOneSentence(
    url.href,
    new RegExp(`^DATABASE_URL: the database cannot be reached \\(database "${name}" .+\\)\\.\n$`),
  );
});

async function expectOneSentence(url: string, sentence: RegExp): Promise<void> {
  const service = new NutpostProcess('serve', {
    DATABASE_URL: url,
    JWT_SECRET: TEST_JWT_SECRET,
    LOG_LEVEL: 'trace',
  });
  const ending = await service.ended();
  expect(ending).toEqual({ code: 1, signal: null, stderr: expect.stringMatching(sentence) });
  expect(ending.stderr).not.toContain(PASSWORD);
}
