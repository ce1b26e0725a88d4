import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Refusal } from '../domain/errors.ts';
import { type Dialect, dialectOf, renderError } from './errors.ts';
import { CORS_HEADERS } from './hooks.ts';

/** A rejected connection stays open so long for the client to read the response. */
const LINGER_MS = 1_000;

/** The latest response of each connection. */
const responses = new WeakMap<Socket, ServerResponse>();
const rejected = new WeakSet<Socket>();

/** Remembers the latest response of each connection. */
export function rememberAnswers(server: Server): void {
  server.on('request', (request, response) => responses.set(request.socket, response));
}

/** Whether a response is still being written: nothing else may use the connection. */
export function isBeingAnswered(socket: Socket): boolean {
  return responses.get(socket)?.writableFinished === false;
}

/**
 * Answers requests that Node's HTTP parser rejects before Fastify sees them. A pipelined request is answered after the
 * requests before it, and no request is answered twice.
 */
export function answerClientError(error: { code: string }, socket: Socket): void {
  if (rejected.has(socket)) {
    return;
  }
  const response = responses.get(socket);
  const isBodyInvalid = response?.req.complete === false;
  if (!socket.writable || (isBodyInvalid && response.writableEnded)) {
    socket.destroy();
    return;
  }
  rejected.add(socket);
  const answer = () => reject(socket, 'any', CLIENT_ERRORS[error.code] ?? MALFORMED);
  if (!isBodyInvalid && response?.writableFinished === false) {
    response.once('finish', answer);
  } else {
    answer();
  }
}

/** Answers an invalid WebSocket handshake. */
export function answerBadHandshake(error: Error, socket: Socket, request: IncomingMessage): void {
  const dialect = dialectOf(request.url ?? '/');
  reject(socket, dialect, { ...MALFORMED, message: `${error.message}.` });
}

function reject(socket: Socket, dialect: Dialect, { statusLine, message }: typeof MALFORMED): void {
  const { body } = renderError(new Refusal('invalid', message), dialect);
  const text = JSON.stringify(body);
  const headers = {
    ...CORS_HEADERS,
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    connection: 'close',
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${statusLine}\r\n${lines.join('')}\r\n${text}`);
  // Closing at once, while more of the request arrives, would reset the connection and lose the response.
  const deadline = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once('close', () => clearTimeout(deadline));
}

const MALFORMED = { statusLine: '400 Bad Request', message: 'The request is not valid HTTP.' };

const CLIENT_ERRORS: Record<string, typeof MALFORMED> = {
  HPE_HEADER_OVERFLOW: {
    statusLine: '431 Request Header Fields Too Large',
    message: 'The request’s headers are too large.',
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    statusLine: '408 Request Timeout',
    message: 'The request took too long to arrive.',
  },
};
