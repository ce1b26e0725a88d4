import type { FastifyInstance } from 'fastify';
import { EndOfTurn } from './end-of-turn.ts';

/**
 * Writes the answers of one turn of the event loop together, at its end: see {@link EndOfTurn}. To be added behind
 * whatever else changes an answer.
 */
export function writeAnswersTogether(app: FastifyInstance): void {
  const endOfTurn = new EndOfTurn();
  app.addHook('onSend', (request, reply, _payload, done) => {
    endOfTurn.putOff(() => {
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
