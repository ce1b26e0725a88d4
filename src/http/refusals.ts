import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Refusal } from '../domain/errors.ts';
import { dialectOf, renderError } from './render-error.ts';

/** Any web page may call this API and read its answers, errors included (spec: browser wallets). */
const OPEN_TO_BROWSERS = { 'access-control-allow-origin': '*' };

/** Renders what handlers and hooks throw, and paths that no route has, each in its dialect. */
export function registerErrorAnswers(app: FastifyInstance): void {
  app.setErrorHandler((error, request, reply) => sendError(error, request, reply));
  app.setNotFoundHandler((request, reply) =>
    sendError(new Refusal('not_found', 'Not found.'), request, reply),
  );
}

/**
 * Renders an error. Also given to Fastify as `frameworkErrors`: those happen before any hook ran,
 * so the header for browsers is set here.
 */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const rendered = renderError(error, dialectOf(request.raw.url ?? '/'));
  if (rendered.isUnexpected) {
    request.log.error({ err: error, route: request.routeOptions.url }, 'a request failed');
  }
  if (rendered.status === 401) {
    reply.header('www-authenticate', 'Nostr, Bearer');
  }
  void reply.code(rendered.status).headers(OPEN_TO_BROWSERS).send(rendered.body);
}

/** Answers requests that Node's own HTTP parser refuses, before Fastify ever sees them. */
export function answerUnreadableRequest(
  error: { code: string; rawPacket?: unknown },
  socket: Socket,
): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const { statusLine, message } = UNREADABLE[error.code] ?? MALFORMED;
  const packet = Buffer.isBuffer(error.rawPacket) ? error.rawPacket.toString('latin1') : '';
  const path = /^[A-Z]+ (\S+)/.exec(packet)?.[1] ?? '/';
  const { body } = renderError(new Refusal('invalid', message), dialectOf(path));
  const text = JSON.stringify(body);
  const headers = {
    ...OPEN_TO_BROWSERS,
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    connection: 'close',
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${statusLine}\r\n${lines.join('')}\r\n${text}`);
}

const MALFORMED = { statusLine: '400 Bad Request', message: 'The request is not valid HTTP.' };

const UNREADABLE: Record<string, typeof MALFORMED> = {
  HPE_HEADER_OVERFLOW: {
    statusLine: '431 Request Header Fields Too Large',
    message: 'The request’s headers are too large.',
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    statusLine: '408 Request Timeout',
    message: 'The request took too long to arrive.',
  },
};
