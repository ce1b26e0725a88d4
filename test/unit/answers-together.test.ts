import Fastify from 'fastify';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { writeAnswersTogether } from '../../src/http/answers-together.ts';

/** Answers that are written at the end of a turn of the event loop. */

const app = Fastify();
writeAnswersTogether(app);
const letGo = Promise.withResolvers<void>();
let url: string;

beforeAll(async () => {
  app.get('/good', async () => {
    await letGo.promise;
    return 'good';
  });
  app.get('/bad', async (_request, reply) => {
    await letGo.promise;
    // As Fastify takes it, and Node does not.
    reply.header('x-bad', 'two\nlines');
    return 'bad';
  });
  url = await app.listen({ host: '127.0.0.1', port: 0 });
});

afterAll(() => app.close());

it('one that cannot be written ends its own connection, and the others of its turn are written', async () => {
  const ask = async (path: string) => (await fetch(url + path)).text();
  const waiting = arrivals(3);
  const answers = Promise.allSettled(['/good', '/bad', '/good'].map(ask));
  await waiting;
  letGo.resolve();
  expect(await answers).toEqual([
    { status: 'fulfilled', value: 'good' },
    { status: 'rejected', reason: expect.any(TypeError) },
    { status: 'fulfilled', value: 'good' },
  ]);
});

/** Resolves when so many requests have come. */
function arrivals(count: number): Promise<void> {
  const all = Promise.withResolvers<void>();
  let left = count;
  app.server.on('request', () => {
    left -= 1;
    if (left === 0) {
      all.resolve();
    }
  });
  return all.promise;
}
