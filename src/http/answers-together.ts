import type { FastifyInstance } from 'fastify';
import { atEndOfTurn } from './end-of-turn.ts';

/**
 * Writes the answers of one turn of the event loop together: see {@link atEndOfTurn}. Whoever sends an answer leaves it
 * as it is from then on. To be added behind whatever else changes one.
 *
 * Only GET waits. Others may have a body: one may be refused before that is there, and what comes of it may be no
 * HTTP.
 */
export function writeAnswersTogether(app: FastifyInstance): void {
  app.addHook('onSend', (request, reply, _payload, done) => {
    if (request.method !== 'GET') {
      done();
      return;
    }
    atEndOfTurn(() => {
      try {
        done();
      } catch (error) {
        // Fastify answers for what fails within the turn of a request alone.
        request.log.error({ err: error }, 'an answer was not written');
        reply.raw.destroy();
      }
    });
  });
}
