import { expect, it } from 'vitest';
import { Readiness } from '../../../src/database/readiness.ts';

// test/acceptance/monitoring.test.ts and test/postgres/server-restart.test.ts cover starts, stops and failing
// databases.

it('queries the database at most once a second', async () => {
  const { readiness, fakes } = createReadiness();
  readiness.markServing();
  await Promise.all([readiness.getStatus(), readiness.getStatus(), readiness.getStatus()]);
  fakes.nowMs += 999;
  await readiness.getStatus();
  expect(fakes.queryCount).toBe(1);
  fakes.nowMs += 1;
  fakes.queryMigrations = () => Promise.resolve(false);
  expect((await readiness.getStatus()).checks.migrations).toBe('failing');
  expect(fakes.queryCount).toBe(2);
});

it('reports a failing database during a hanging query and starts no second query', async () => {
  const { readiness, fakes } = createReadiness();
  readiness.markServing();
  await readiness.getStatus();
  const hangingQuery = Promise.withResolvers<boolean>();
  fakes.queryMigrations = () => hangingQuery.promise;
  fakes.nowMs += 60_000;
  const statuses = await Promise.all([readiness.getStatus(), readiness.getStatus()]);
  expect(statuses.map(({ checks }) => checks.database)).toEqual(['failing', 'failing']);
  expect(fakes.queryCount).toBe(2);
  hangingQuery.resolve(true);
  expect((await readiness.getStatus()).status).toBe('ready');
});

function createReadiness() {
  const fakes = {
    nowMs: 0,
    queryCount: 0,
    queryMigrations: (): Promise<boolean> => Promise.resolve(true),
  };
  const readiness = new Readiness({
    migrations: {
      isUpToDate: () => {
        fakes.queryCount += 1;
        return fakes.queryMigrations();
      },
    },
    isListening: () => true,
    isWritable: () => true,
    monotonicMs: () => fakes.nowMs,
  });
  return { readiness, fakes };
}
