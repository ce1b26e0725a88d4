import { expect, it } from 'vitest';
import { Readiness } from '../../../src/database/readiness.ts';
import { DatabaseUnavailableError } from '../../../src/errors.ts';

// test/acceptance/monitoring.test.ts and test/postgres/server-restart.test.ts cover starts, stops and failing
// databases.

const UP_TO_DATE = { isUpToDate: true, isWritable: true };

it('queries the database at most once a second', async () => {
  const { readiness, fakes } = createReadiness();
  readiness.markServing();
  await Promise.all([readiness.getStatus(), readiness.getStatus(), readiness.getStatus()]);
  fakes.nowMs += 999;
  await readiness.getStatus();
  expect(fakes.queryCount).toBe(1);
  fakes.nowMs += 1;
  fakes.queryStatus = () => Promise.resolve({ isUpToDate: false, isWritable: true });
  expect((await readiness.getStatus()).checks.migrations).toBe('failing');
  expect(fakes.queryCount).toBe(2);
});

it('stays ready while all connections are busy', async () => {
  const { readiness, fakes } = createReadiness();
  readiness.markServing();
  await readiness.getStatus();
  fakes.queryStatus = () => Promise.reject(new DatabaseUnavailableError(new Error('busy')));
  fakes.nowMs += 60_000;
  expect((await readiness.getStatus()).status).toBe('ready');
});

it('reports a failing database if it cannot be reached or a query fails for another reason', async () => {
  const { readiness, fakes } = createReadiness();
  readiness.markServing();
  await readiness.getStatus();
  fakes.queryStatus = () => Promise.reject(new Error('a table is missing'));
  fakes.nowMs += 60_000;
  const unreachable = { database: 'failing', migrations: 'unknown', listen: 'ok' };
  expect((await readiness.getStatus()).checks).toEqual(unreachable);

  fakes.queryStatus = () => Promise.resolve(UP_TO_DATE);
  fakes.nowMs += 60_000;
  expect((await readiness.getStatus()).status).toBe('ready');
  fakes.isWritable = false;
  fakes.queryStatus = () => Promise.reject(new DatabaseUnavailableError(new Error('refused')));
  fakes.nowMs += 60_000;
  expect((await readiness.getStatus()).checks).toEqual(unreachable);
});

it('leaves a hanging query to the LISTEN connection, and starts no second query', async () => {
  const { readiness, fakes } = createReadiness();
  readiness.markServing();
  await readiness.getStatus();
  const hangingQuery = Promise.withResolvers<typeof UP_TO_DATE>();
  fakes.queryStatus = () => hangingQuery.promise;
  fakes.nowMs += 60_000;
  const statuses = await Promise.all([readiness.getStatus(), readiness.getStatus()]);
  expect(statuses.map(({ status }) => status)).toEqual(['ready', 'ready']);
  fakes.isListening = false;
  expect((await readiness.getStatus()).status).toBe('failing');
  expect(fakes.queryCount).toBe(2);
  fakes.isListening = true;
  hangingQuery.resolve(UP_TO_DATE);
  expect((await readiness.getStatus()).status).toBe('ready');
});

it('reports a failing database while its server is read-only', async () => {
  const { readiness, fakes } = createReadiness();
  readiness.markServing();
  fakes.queryStatus = () => Promise.resolve({ isUpToDate: true, isWritable: false });
  expect(await readiness.getStatus()).toEqual({
    status: 'failing',
    checks: { database: 'failing', migrations: 'ok', listen: 'ok' },
  });
});

function createReadiness() {
  const fakes = {
    nowMs: 0,
    queryCount: 0,
    isListening: true,
    isWritable: true,
    queryStatus: () => Promise.resolve(UP_TO_DATE),
  };
  const readiness = new Readiness({
    queryMigrations: () => {
      fakes.queryCount += 1;
      return fakes.queryStatus();
    },
    isListening: () => fakes.isListening,
    isWritable: () => fakes.isWritable,
    monotonicMs: () => fakes.nowMs,
  });
  return { readiness, fakes };
}
