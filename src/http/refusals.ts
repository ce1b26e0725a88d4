import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Refusal } from '../domain/errors.ts';
import { setCommonHeaders } from './open-to-browsers.ts';
import { dialectOf, renderError } from './render-error.ts';

/** Renders what handlers and hooks throw, and paths that no route has, each in its dialect. */
export function registerErrorAnswers(app: FastifyInstance): void {
  app.setErrorHandler((error, request, reply) => sendError(error, request, reply));
  app.setNotFoundHandler((request, reply) =>
    sendError(new Refusal('not_found', 'Not found.'), request, reply),
  );
}

/**
 * Renders an error. Also given to Fastify as `frameworkErrors`: those happen before any hook ran,
 * so the headers that all answers have are set here.
 */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const rendered = renderError(error, dialectOf(request.raw.url ?? '/'));
  if (rendered.errorId !== null) {
    const { errorId } = rendered;
    request.hasFailed = true;
    request.log.error({ err: error, errorId, route: request.routeOptions.url }, 'a request failed');
  }
  if (rendered.status === 401) {
    reply.header('www-authenticate', 'Nostr, Bearer');
  }
  if (request.ws) {
    // The connection ends with this answer; nothing else may be sent on it.
    reply.header('connection', 'close');
  }
  if (rendered.retryAfterSeconds !== null) {
    reply.header('retry-after', rendered.retryAfterSeconds);
  }
  setCommonHeaders(request, reply);
  void reply.code(rendered.status).send(rendered.body);
}
