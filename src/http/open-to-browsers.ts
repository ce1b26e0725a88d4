import cors from '@fastify/cors';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { REQUEST_ID_HEADER } from './request-ids.ts';

/** Any web page may call this API and read its answers, errors included (spec: browser wallets). */
export const OPEN_TO_BROWSERS = { 'access-control-allow-origin': '*' };

/** What a web page may read beside the body. */
const EXPOSED_HEADERS = 'X-Cashu, Retry-After, X-Request-Id';

const METHODS = ['GET', 'HEAD', 'POST', 'PATCH', 'OPTIONS'];
const REQUEST_HEADERS = ['Authorization', 'Content-Type', 'X-Cashu'];

/** For how long a browser need not ask again. */
const PREFLIGHT_LIFE_SECONDS = 86_400;

/** Gives each answer the headers that web pages need, and the id under which the log tells of its request. */
export function addCommonHeaders(app: FastifyInstance): void {
  app.addHook('onRequest', (request, reply, done) => {
    setCommonHeaders(request, reply);
    done();
  });
}

/** For answers to what no hook has seen, too. */
export function setCommonHeaders(request: FastifyRequest, reply: FastifyReply): void {
  reply.headers(OPEN_TO_BROWSERS);
  reply.header('access-control-expose-headers', EXPOSED_HEADERS);
  reply.header(REQUEST_ID_HEADER, request.id);
}

/** Answers preflights, of whatever path. */
export async function answerPreflights(app: FastifyInstance): Promise<void> {
  // In a scope of their own: the plugin would set the same headers of every answer once more.
  await app.register(async (scope) => {
    await scope.register(cors, {
      origin: '*',
      methods: METHODS,
      allowedHeaders: REQUEST_HEADERS,
      maxAge: PREFLIGHT_LIFE_SECONDS,
      strictPreflight: false,
    });
  });
}
