import { expect, it, onTestFinished } from 'vitest';
import { createLogger } from '../../src/log.ts';
import { runDoctor } from '../../src/operator/doctor/doctor.ts';
import { startService } from '../../src/service.ts';
import { runStatement } from '../helpers/database/temporary-postgres-database.ts';
import { createTestDatabase, requirePostgresUrl } from '../helpers/database/test-database.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { NutpostProcess } from '../helpers/service/nutpost-process.ts';
import {
  createTestConfig,
  setLockQuotes,
  TEST_JWT_SECRET,
} from '../helpers/service/test-environment.ts';

/** The defaults of a server, a database or a role differ from those of PostgreSQL. */

const OTHER_DEFAULTS = {
  default_transaction_isolation: 'serializable',
  lock_timeout: '1ms',
  statement_timeout: '1h',
  idle_in_transaction_session_timeout: '1h',
  idle_session_timeout: '1s',
  timezone: 'Pacific/Chatham',
  client_encoding: 'LATIN1',
  datestyle: 'SQL, DMY',
  standard_conforming_strings: 'off',
};

it('serves concurrent requests whatever the defaults of the database are', async () => {
  const testDatabase = await createTestDatabase();
  onTestFinished(() => testDatabase.drop());
  const url = requirePostgresUrl(testDatabase);
  const name = new URL(url).pathname.slice(1);
  for (const [setting, value] of Object.entries(OTHER_DEFAULTS)) {
    await runStatement(url, `alter database ${name} set ${setting} = '${value}'`);
  }
  const mint = await startTestMint();
  const service = await startService(createTestConfig(mint.url, { DATABASE_URL: url }), {
    log: createLogger('silent'),
  });
  onTestFinished(() => service.stop());
  const findings = await runDoctor(() => undefined, {
    DATABASE_URL: url,
    JWT_SECRET: TEST_JWT_SECRET,
    DEFAULT_MINT_URL: mint.url,
    ALLOW_PRIVATE_NETWORKS: 'true',
    PORT: '0',
  });
  expect(findings.filter(({ level }) => level === 'problem')).toEqual([]);

  const wallet = new RecipientClient(service.publicOrigin);
  const changes = Array.from({ length: 20 }, (_, index) => setLockQuotes(wallet, index % 2 === 0));
  expect((await Promise.all(changes)).map(({ status }) => status)).toEqual(Array(20).fill(200));

  const comment = 'Grüße 🥜 \\ \'"';
  const query = new URLSearchParams({ amount: '21000', comment });
  const path = `/.well-known/lnurlp/${wallet.npub}?${query}`;
  const invoices = await Promise.all(
    Array.from({ length: 20 }, () => requestJson(service.url, path)),
  );
  mint.pay(invoices[0]?.body.pr);
  await expect.poll(() => wallet.listPaidQuotes()).toMatchObject([{ amount: 21, comment }]);
});

it('does not start with a database that cannot store all text', async () => {
  const testDatabase = await createTestDatabase();
  onTestFinished(() => testDatabase.drop());
  const url = new URL(requirePostgresUrl(testDatabase));
  const name = `${url.pathname.slice(1)}_latin1`;
  await runStatement(
    url.href,
    `create database ${name} encoding 'LATIN1' locale 'C' template template0`,
  );
  onTestFinished(() => runStatement(url.href, `drop database ${name} with (force)`));
  const service = new NutpostProcess('serve', {
    DATABASE_URL: new URL(`/${name}`, url).href,
    JWT_SECRET: TEST_JWT_SECRET,
  });
  expect(await service.waitForExit()).toEqual({
    code: 1,
    signal: null,
    stderr:
      'DATABASE_URL: the encoding of the database is LATIN1. Create it with' +
      ` "encoding 'UTF8' template template0".\n`,
  });
});
