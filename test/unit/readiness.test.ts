import { expect, it } from 'vitest';
import { Readiness } from '../../src/database/readiness.ts';

// test/acceptance/monitoring.test.ts and test/postgres/server-restart.test.ts cover starts, stops and failing databases.

it('queries the database at most once a second', async () => {
  const { readiness, state } = open();
  readiness.markServing();
  await Promise.all([readiness.getStatus(), readiness.getStatus(), readiness.getStatus()]);
  state.nowMs += 999;
  await readiness.getStatus();
  expect(state.queries).toBe(1);
  state.nowMs += 1;
  state.answer = () => Promise.resolve(false);
  expect((await readiness.getStatus()).checks.migrations).toBe('failing');
  expect(state.queries).toBe(2);
});

it('fails while a query hangs, and starts no other query', async () => {
  const { readiness, state } = open();
  readiness.markServing();
  await readiness.getStatus();
  const answer = Promise.withResolvers<boolean>();
  state.answer = () => answer.promise;
  state.nowMs += 60_000;
  const statuses = await Promise.all([readiness.getStatus(), readiness.getStatus()]);
  expect(statuses.map(({ checks }) => checks.database)).toEqual(['failing', 'failing']);
  expect(state.queries).toBe(2);
  answer.resolve(true);
  expect((await readiness.getStatus()).status).toBe('ready');
});

function open() {
  const state = {
    nowMs: 0,
    queries: 0,
    answer: (): Promise<boolean> => Promise.resolve(true),
  };
  const readiness = new Readiness({
    migrations: {
      isUpToDate: () => {
        state.queries += 1;
        return state.answer();
      },
    },
    isListening: () => true,
    isWritable: () => true,
    monotonicMs: () => state.nowMs,
  });
  return { readiness, state };
}
