import type { FastifyInstance } from 'fastify';
import type { Answered } from '../domain/answered.ts';
import { hasFailed } from './refusals.ts';

/** Tells of every answer, refusals as well. A handshake that becomes a WebSocket has none. */
export function tellAnswers(app: FastifyInstance, onAnswered: (answer: Answered) => void): void {
  app.addHook('onResponse', (request, reply, done) => {
    onAnswered({
      method: request.method,
      route: request.routeOptions.url ?? 'none',
      status: reply.statusCode,
      tookMs: reply.elapsedTime,
      hasFailed: hasFailed(request),
    });
    done();
  });
}
