import { expect, it } from 'vitest';
import { Readiness } from '../../src/usecases/readiness.ts';

/** When a process says that it is to be sent requests. */

const ALL_OK = { database: 'ok', migrations: 'ok', listen: 'ok' };

it('is ready from the end of its start to the beginning of its stop', async () => {
  const { readiness } = aProcess();
  expect(await readiness.standing()).toEqual({ status: 'starting', checks: ALL_OK });
  readiness.serve();
  expect(await readiness.standing()).toEqual({ status: 'ready', checks: ALL_OK });
  readiness.stop();
  expect(await readiness.standing()).toEqual({ status: 'stopping', checks: ALL_OK });
});

it('stays unready where it was told to stop before its start was over', async () => {
  const { readiness } = aProcess();
  readiness.stop();
  expect((await readiness.standing()).status).toBe('stopping');
  expect(readiness.isStopping).toBe(true);
});

it('is not ready while it does not hear what other processes tell', async () => {
  const { readiness, surroundings } = aProcess();
  readiness.serve();
  surroundings.isListening = false;
  expect(await readiness.standing()).toEqual({
    status: 'failing',
    checks: { ...ALL_OK, listen: 'failing' },
  });
  surroundings.isListening = true;
  expect((await readiness.standing()).status).toBe('ready');
});

it('asks the database once a second, however often it is asked itself', async () => {
  const { readiness, surroundings } = aProcess();
  readiness.serve();
  await Promise.all([readiness.standing(), readiness.standing(), readiness.standing()]);
  expect(surroundings.questions).toBe(1);
  surroundings.nowMs += 999;
  await readiness.standing();
  expect(surroundings.questions).toBe(1);
  surroundings.nowMs += 1;
  surroundings.answer = () => Promise.resolve(false);
  expect((await readiness.standing()).checks.migrations).toBe('failing');
  expect(surroundings.questions).toBe(2);
});

it('is not ready while the database fails, and ready again once it answers', async () => {
  const { readiness, surroundings } = aProcess();
  readiness.serve();
  surroundings.answer = () => Promise.reject(new Error('away'));
  expect(await readiness.standing()).toEqual({
    status: 'failing',
    checks: { database: 'failing', migrations: 'unknown', listen: 'ok' },
  });
  surroundings.nowMs += 1_000;
  surroundings.answer = () => Promise.resolve(true);
  expect((await readiness.standing()).status).toBe('ready');
});

it('says so in time where the database does not answer at all, and asks nothing more meanwhile', async () => {
  const { readiness, surroundings } = aProcess();
  readiness.serve();
  expect((await readiness.standing()).status).toBe('ready');
  const answer = Promise.withResolvers<boolean>();
  surroundings.answer = () => answer.promise;
  surroundings.nowMs += 60_000;
  const standings = await Promise.all([readiness.standing(), readiness.standing()]);
  expect(standings.map(({ checks }) => checks.database)).toEqual(['failing', 'failing']);
  expect(surroundings.questions).toBe(2);
  answer.resolve(true);
  expect((await readiness.standing()).status).toBe('ready');
});

/** A process whose database answers as the test says. */
function aProcess() {
  const surroundings = {
    nowMs: 0,
    isListening: true,
    questions: 0,
    answer: (): Promise<boolean> => Promise.resolve(true),
  };
  const readiness = new Readiness({
    migrations: {
      areApplied: () => {
        surroundings.questions += 1;
        return surroundings.answer();
      },
    },
    isListening: () => surroundings.isListening,
    monotonicMs: () => surroundings.nowMs,
  });
  return { readiness, surroundings };
}
