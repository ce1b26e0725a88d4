import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Answered } from '../domain/answered.ts';
import { READY_PATH } from './health.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Whether it met a bug or a broken dependency, which the log reports as an ERROR. */
    hasFailed: boolean;
  }
}

/**
 * Logs each response, and reports it to `onAnswered`. The route stands for the path, which may contain a verify token;
 * headers and bodies are omitted, because they contain tokens, signatures and quote ids.
 */
export function logResponses(
  app: FastifyInstance,
  onAnswered: ((answer: Answered) => void) | null,
): void {
  app.decorateRequest('hasFailed', false);
  app.addHook('onResponse', (request, reply, done) => {
    const { method, hasFailed } = request;
    const { statusCode: status, elapsedTime: tookMs } = reply;
    const route = request.routeOptions.url ?? 'none';
    const level = levelOf(request, reply);
    request.log[level]({ method, route, status, tookMs: Math.round(tookMs) }, 'answered');
    onAnswered?.({ method, route, status, tookMs, hasFailed });
    done();
  });
}

/** Users report failed requests by the id of the response; load balancers ask for readiness all the time. */
function levelOf(request: FastifyRequest, { statusCode }: FastifyReply): 'info' | 'debug' {
  return statusCode >= 500 && request.routeOptions.url !== READY_PATH ? 'info' : 'debug';
}
