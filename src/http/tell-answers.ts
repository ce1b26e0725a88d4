import type { FastifyInstance } from 'fastify';

/** An answer that was sent. */
export interface Answered {
  method: string;
  /** As it was registered, without what stands in the path; `none` where there is none. */
  route: string;
  status: number;
  tookMs: number;
}

/** Tells of every answer, refusals as well. A handshake that becomes a WebSocket has none. */
export function tellAnswers(app: FastifyInstance, onAnswered: (answer: Answered) => void): void {
  app.addHook('onResponse', async (request, reply) => {
    onAnswered({
      method: request.method,
      route: request.routeOptions.url ?? 'none',
      status: reply.statusCode,
      tookMs: reply.elapsedTime,
    });
  });
}
