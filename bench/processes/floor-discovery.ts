import Fastify from 'fastify';

/** The floor of discovery: a bare route that returns the bytes in `ANSWER`. */

const answer = process.env['ANSWER'] ?? '';

const app = Fastify();
app.get('/.well-known/lnurlp/:user', async (_request, reply) => {
  reply.type('application/json; charset=utf-8');
  return answer;
});
const url = await app.listen({ host: '127.0.0.1', port: 0 });
process.stdout.write(`${JSON.stringify({ url })}\n`);
