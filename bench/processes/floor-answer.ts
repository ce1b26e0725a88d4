import Fastify from 'fastify';

/** The floor of what is answered from memory: a bare route `ROUTE` that returns `ANSWER` with `HEADERS` (JSON). */

const route = process.env['ROUTE'] ?? '';
const answer = process.env['ANSWER'] ?? '';
const headers = JSON.parse(process.env['HEADERS'] ?? '{}') as Record<string, string>;

const app = Fastify();
app.get(route, async (_request, reply) => {
  reply.headers(headers);
  return answer;
});
const url = await app.listen({ host: '127.0.0.1', port: 0 });
process.stdout.write(`${JSON.stringify({ url })}\n`);
