import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type ErrorCode, RequestError } from '../errors.ts';
import { CORS_HEADERS, type ErrorFormat, getErrorFormat, renderError } from './errors.ts';
import { REJECTED_CONNECTION_LINGER_MS } from './limits.ts';

// Responses to what Node's HTTP parser rejects, before there is a request that Fastify could answer.

/** The latest response on each connection. */
const latestResponses = new WeakMap<Socket, ServerResponse>();

const rejectedSockets = new WeakSet<Socket>();

/** Must be called for a server whose `clientError` is handled by {@link handleClientError}. */
export function recordLatestResponses(server: Server): void {
  server.on('request', (request, response) => latestResponses.set(request.socket, response));
}

export function hasPendingResponse(socket: Socket): boolean {
  return latestResponses.get(socket)?.writableFinished === false;
}

/** Responds to a malformed request, once per connection and after pending responses. Then closes the connection. */
export function handleClientError(error: { code: string }, socket: Socket): void {
  if (rejectedSockets.has(socket)) {
    return;
  }
  const response = latestResponses.get(socket);
  const failedWhileReadingBody = response?.req.complete === false;
  if (!socket.writable || (failedWhileReadingBody && response.writableEnded)) {
    socket.destroy();
    return;
  }
  rejectedSockets.add(socket);
  const rejection = REJECTIONS[error.code] ?? MALFORMED_REQUEST;
  const sendRejection = () => sendErrorAndClose(socket, 'any', rejection);
  if (!failedWhileReadingBody && response?.writableFinished === false) {
    response.once('finish', sendRejection);
  } else {
    sendRejection();
  }
}

export function handleHandshakeError(error: Error, socket: Socket, request: IncomingMessage): void {
  const format = getErrorFormat(request.url ?? '/');
  sendErrorAndClose(socket, format, { ...MALFORMED_REQUEST, message: `${error.message}.` });
}

interface Rejection {
  statusLine: string;
  code: ErrorCode;
  message: string;
}

const MALFORMED_REQUEST: Rejection = {
  statusLine: '400 Bad Request',
  code: 'invalid',
  message: 'The request is not valid HTTP.',
};

const REJECTIONS: Record<string, Rejection> = {
  HPE_HEADER_OVERFLOW: {
    statusLine: '431 Request Header Fields Too Large',
    code: 'too_large',
    message: 'The request’s headers are too large.',
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    statusLine: '408 Request Timeout',
    code: 'timeout',
    message: 'The request took too long to arrive.',
  },
};

function sendErrorAndClose(
  socket: Socket,
  format: ErrorFormat,
  { statusLine, code, message }: Rejection,
): void {
  const { body } = renderError(new RequestError(code, message), format);
  const text = JSON.stringify(body);
  const headers = {
    ...CORS_HEADERS,
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    connection: 'close',
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${statusLine}\r\n${lines.join('')}\r\n${text}`);
  // Destroying the socket now would reset the connection if data still arrives, and the response would be lost.
  const deadline = setTimeout(() => socket.destroy(), REJECTED_CONNECTION_LINGER_MS).unref();
  socket.once('close', () => clearTimeout(deadline));
}
