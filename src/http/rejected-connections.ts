import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type ErrorCode, RequestError } from '../errors.ts';
import { CORS_HEADERS, type ErrorFormat, getErrorFormat, renderError } from './errors.ts';

// Responses to what Node's HTTP parser rejects, before there is a request that Fastify could answer.

const latestResponses = new WeakMap<Socket, ServerResponse>();

/** Must be called for a server whose `clientError` is handled by {@link handleClientError}. */
export function recordLatestResponses(server: Server): void {
  server.on('request', (request, response) => latestResponses.set(request.socket, response));
}

export function hasPendingResponse(socket: Socket): boolean {
  return latestResponses.get(socket)?.writableFinished === false;
}

const rejectedSockets = new WeakSet<Socket>();

/** Responds to a malformed request, once per connection and after pending responses. Then closes the connection. */
export function handleClientError(error: { code: string }, socket: Socket): void {
  if (rejectedSockets.has(socket)) {
    return;
  }
  const response = latestResponses.get(socket);
  const failedWhileReadingBody = response?.req.complete === false;
  // The response to a request is not followed by a rejection of its body.
  if (!socket.writable || (failedWhileReadingBody && response.writableEnded)) {
    socket.destroy();
    return;
  }
  rejectedSockets.add(socket);
  const sendRejection = () =>
    sendErrorAndClose(socket, 'any', ...(REJECTIONS[error.code] ?? MALFORMED_REQUEST));
  // The malformed request may follow one whose response is pending, if the client pipelines them.
  if (!failedWhileReadingBody && response?.writableFinished === false) {
    response.once('finish', sendRejection);
  } else {
    sendRejection();
  }
}

export function handleWebSocketHandshakeError(
  error: Error,
  socket: Socket,
  request: IncomingMessage,
): void {
  const [status, code] = MALFORMED_REQUEST;
  sendErrorAndClose(socket, getErrorFormat(request.url ?? '/'), status, code, `${error.message}.`);
}

type Rejection = [status: number, code: ErrorCode, message: string];

const MALFORMED_REQUEST: Rejection = [400, 'invalid', 'The request is not valid HTTP.'];

const REJECTIONS: Record<string, Rejection> = {
  HPE_HEADER_OVERFLOW: [431, 'too_large', 'The request’s headers are too large.'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'timeout', 'The request took too long to arrive.'],
};

function sendErrorAndClose(
  socket: Socket,
  format: ErrorFormat,
  ...[status, code, message]: Rejection
): void {
  const text = JSON.stringify(renderError(new RequestError(code, message), format).body);
  const headers = {
    ...CORS_HEADERS,
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    connection: 'close',
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status} Rejected\r\n${lines.join('')}\r\n${text}`);
  // Destroying the socket now would reset the connection if data still arrives, and the response would be lost.
  const deadline = setTimeout(() => socket.destroy(), 1_000).unref();
  socket.once('close', () => clearTimeout(deadline));
}
