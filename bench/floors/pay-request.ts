import { json } from 'node:stream/consumers';
import Fastify from 'fastify';

/** The floor for the `discovery` figure: returns the responses from standard input, which are keyed by path. */

const responsesByPath = new Map(
  Object.entries((await json(process.stdin)) as Record<string, string>),
);

const app = Fastify();
app.get('/.well-known/lnurlp/:user', (request, reply) => {
  reply.type('application/json; charset=utf-8').send(responsesByPath.get(request.url));
});
const url = await app.listen({ host: '127.0.0.1', port: 0 });
process.stdout.write(`${JSON.stringify({ url })}\n`);
