import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type ErrorCode, RequestError } from '../errors.ts';
import { CORS_HEADERS, type ErrorFormat, getErrorFormat, renderError } from './errors.ts';

// Node's HTTP parser rejects some requests before Fastify receives them. This file responds to these.

/** Responds to a malformed request, unless an earlier response is pending. Closes the connection. */
export function handleClientError(error: { code: string }, socket: Socket): void {
  // The parser may fail again after the response.
  if (socket.writableEnded) {
    return;
  }
  const latest = latestResponses.get(socket);
  // A request whose body is malformed may have its response already.
  const isPending = latest?.req.complete ? !latest.writableFinished : latest?.writableEnded;
  if (!socket.writable || isPending) {
    socket.destroy();
  } else {
    sendErrorAndClose(socket, 'any', REJECTIONS[error.code] ?? MALFORMED_REQUEST);
  }
}

export function handleHandshakeError(error: Error, socket: Socket, request: IncomingMessage): void {
  const [status, code] = MALFORMED_REQUEST;
  const format = getErrorFormat(request.url ?? '/');
  sendErrorAndClose(socket, format, [status, code, `${error.message}.`]);
}

const latestResponses = new WeakMap<Socket, ServerResponse>();

/** Must be called for a server whose `clientError` is handled by {@link handleClientError}. */
export function recordLatestResponses(server: Server): void {
  server.on('request', (request, response) => latestResponses.set(request.socket, response));
}

export function hasPendingResponse(socket: Socket): boolean {
  return latestResponses.get(socket)?.writableFinished === false;
}

type Rejection = [status: number, code: ErrorCode, message: string];

const MALFORMED_REQUEST: Rejection = [400, 'invalid', 'The request is not valid HTTP.'];

/** The response to each error code of Node. */
const REJECTIONS: Record<string, Rejection> = {
  HPE_HEADER_OVERFLOW: [431, 'too_large', 'The request’s headers are too large.'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'timeout', 'The request took too long to arrive.'],
};

function sendErrorAndClose(socket: Socket, format: ErrorFormat, rejection: Rejection): void {
  const [status, code, message] = rejection;
  const error = new RequestError(code, message);
  const body = JSON.stringify(renderError(error, format).body);
  const headers = {
    ...CORS_HEADERS,
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    connection: 'close',
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status} Rejected\r\n${lines.join('')}\r\n${body}`);
  // If the socket were destroyed now while data still arrives, the client would get a reset instead of the response.
  const deadline = setTimeout(() => socket.destroy(), 1_000).unref();
  socket.once('close', () => clearTimeout(deadline));
}
