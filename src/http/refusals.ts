import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Refusal } from '../domain/errors.ts';
import { dialectOf, renderError } from './render-error.ts';
import { REQUEST_ID_HEADER } from './request-ids.ts';

/** Any web page may call this API and read its answers, errors included (spec: browser wallets). */
export const OPEN_TO_BROWSERS = { 'access-control-allow-origin': '*' };

/** See {@link hasFailed}. */
const failed = new WeakSet<FastifyRequest>();

/** Renders what handlers and hooks throw, and paths that no route has, each in its dialect. */
export function registerErrorAnswers(app: FastifyInstance): void {
  app.setErrorHandler((error, request, reply) => sendError(error, request, reply));
  app.setNotFoundHandler((request, reply) =>
    sendError(new Refusal('not_found', 'Not found.'), request, reply),
  );
}

/**
 * Renders an error. Also given to Fastify as `frameworkErrors`: those happen before any hook ran,
 * so the headers for browsers and of the id are set here.
 */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const rendered = renderError(error, dialectOf(request.raw.url ?? '/'));
  if (rendered.errorId !== null) {
    const { errorId } = rendered;
    failed.add(request);
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
  const headers = { ...OPEN_TO_BROWSERS, [REQUEST_ID_HEADER]: request.id };
  void reply.code(rendered.status).headers(headers).send(rendered.body);
}

/** Whether a request met a bug or a broken dependency, of which the log has an ERROR. */
export function hasFailed(request: FastifyRequest): boolean {
  return failed.has(request);
}
