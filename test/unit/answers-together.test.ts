import Fastify from 'fastify';
import { afterEach, expect, it } from 'vitest';
import { writeAnswersTogether } from '../../src/http/answers-together.ts';

/** Answers that are written at the end of a turn of the event loop. */

const app = Fastify();
writeAnswersTogether(app);

afterEach(() => app.close());

it('one that cannot be written ends its own connection, and the others of its turn are written', async () => {
  app.get('/good', async () => 'good');
  app.get('/bad', async (_request, reply) => {
    // As Fastify takes it, and Node does not.
    reply.header('x-bad', 'two\nlines');
    return 'bad';
  });
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  const ask = async (path: string) => (await fetch(url + path)).text();
  const answers = await Promise.allSettled(['/good', '/bad', '/good'].map(ask));
  expect(answers).toEqual([
    { status: 'fulfilled', value: 'good' },
    { status: 'rejected', reason: expect.any(TypeError) },
    { status: 'fulfilled', value: 'good' },
  ]);
});
