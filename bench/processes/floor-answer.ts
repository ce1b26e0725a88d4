import { json } from 'node:stream/consumers';
import Fastify from 'fastify';

/** What a bare route is to answer: standard input. */
export interface BareAnswers {
  /** In Fastify's words. */
  route: string;
  /** Of every answer. */
  headers: Record<string, string>;
  /** By the path that is asked for, with its query. */
  bodies: Record<string, string>;
}

/** The floor of what is answered from memory: a bare route that returns the same bytes for the same paths. */

const { route, headers, bodies } = (await json(process.stdin)) as BareAnswers;
const byPath = new Map(Object.entries(bodies));

const app = Fastify();
app.get(route, (request, reply) => {
  reply.headers(headers).send(byPath.get(request.url));
});
const url = await app.listen({ host: '127.0.0.1', port: 0 });
process.stdout.write(`${JSON.stringify({ url })}\n`);
