import type { FastifyInstance } from 'fastify';

/**
 * While the server closes, each connection ends with the answer that it was waiting for. Kept alive,
 * it would hold up the end for as long as idle connections live, which is more than a minute.
 */
export function endConnectionsOnClose(app: FastifyInstance): void {
  let isClosing = false;
  app.addHook('preClose', async () => {
    isClosing = true;
  });
  app.addHook('onSend', async (_request, reply) => {
    if (isClosing) {
      reply.header('connection', 'close');
    }
  });
}
