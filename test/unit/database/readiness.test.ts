import { expect, it } from 'vitest';
import { Readiness } from '../../../src/database/readiness.ts';
import { DatabaseUnavailableError } from '../../../src/errors.ts';

// test/acceptance/monitoring.test.ts and test/postgres/failover.test.ts cover starts, stops and failing
// databases.

it('stays ready while all connections are busy', async () => {
  const { readiness, fakes } = createReadiness();
  readiness.phase = 'serving';
  await readiness.getStatus();
  fakes.queryStatus = () => Promise.reject(new DatabaseUnavailableError(new Error('busy')));
  fakes.nowMs += 60_000;
  expect((await readiness.getStatus()).status).toBe('ready');
});

it('leaves a hanging query to the LISTEN connection, and starts no second query', async () => {
  const { readiness, fakes } = createReadiness();
  readiness.phase = 'serving';
  await readiness.getStatus();
  const hangingQuery = Promise.withResolvers<boolean>();
  fakes.queryStatus = () => hangingQuery.promise;
  fakes.nowMs += 60_000;
  const statuses = await Promise.all([readiness.getStatus(), readiness.getStatus()]);
  expect(statuses.map(({ status }) => status)).toEqual(['ready', 'ready']);
  fakes.isListening = false;
  expect((await readiness.getStatus()).status).toBe('failing');
  expect(fakes.queryCount).toBe(2);
  fakes.isListening = true;
  hangingQuery.resolve(true);
  expect((await readiness.getStatus()).status).toBe('ready');
});

function createReadiness() {
  const fakes = {
    nowMs: 0,
    queryCount: 0,
    isListening: true,
    isWritable: true,
    queryStatus: () => Promise.resolve(true),
  };
  const readiness = new Readiness({
    areMigrationsApplied: () => {
      fakes.queryCount += 1;
      return fakes.queryStatus();
    },
    isListening: () => fakes.isListening,
    isWritable: () => fakes.isWritable,
    monotonicMs: () => fakes.nowMs,
  });
  return { readiness, fakes };
}
