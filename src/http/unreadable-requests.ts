import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Refusal } from '../domain/errors.ts';
import { OPEN_TO_BROWSERS } from './open-to-browsers.ts';
import { dialectOf, renderError } from './render-error.ts';

/** A refused connection stays open so long, for its answer to be read; see {@link hangUp}. */
const LINGER_MS = 1_000;

/** The path that decides how an error is said stands at the very beginning. */
const MAX_REQUEST_LINE_LENGTH = 200;

const END_OF_HEADERS = '\r\n\r\n';

const answers = new WeakMap<Socket, ServerResponse>();
const refusedSockets = new WeakSet<Socket>();

/**
 * Remembers the answer that each connection got last. Nobody reads along what it says: Node's parser then
 * reads the system's own buffers, which takes a tenth less for each request.
 */
export function rememberAnswers(server: Server): void {
  server.on('request', (request, response) => answers.set(request.socket, response));
}

/** Whether an answer to an earlier request is still to be written: nothing else may use the connection. */
export function isBeingAnswered(socket: Socket): boolean {
  return answers.get(socket)?.writableFinished === false;
}

/**
 * Answers requests that Node's own HTTP parser refuses, before Fastify ever sees them. Each request
 * gets one answer, in its turn: whoever keeps several under way takes the first for the first.
 */
export function answerUnreadableRequest(
  error: { code: string; rawPacket?: unknown; bytesParsed?: number },
  socket: Socket,
): void {
  if (refusedSockets.has(socket)) {
    return;
  }
  const answer = answers.get(socket);
  // Of a request whose body has not ended, it is the body that cannot be read.
  const answerOfBody = answer?.req.complete === false ? answer : null;
  if (!socket.writable || answerOfBody?.writableEnded === true) {
    socket.destroy();
    return;
  }
  refusedSockets.add(socket);
  const path = answerOfBody?.req.url ?? unreadablePath(error);
  const answerThis = () => refuse(socket, path, UNREADABLE[error.code] ?? MALFORMED);
  if (answer?.req.complete === true && !answer.writableFinished) {
    answer.once('finish', answerThis);
  } else {
    answerThis();
  }
}

/** Answers a WebSocket handshake that is none; given to the WebSocket server. */
export function answerBadHandshake(error: Error, socket: Socket, request: IncomingMessage): void {
  refuse(socket, request.url ?? '/', { ...MALFORMED, message: `${error.message}.` });
}

/** @param path null: it is not known whom the request was for */
function refuse(
  socket: Socket,
  path: string | null,
  { statusLine, message }: typeof MALFORMED,
): void {
  const dialect = path === null ? 'any' : dialectOf(path);
  const { body } = renderError(new Refusal('invalid', message), dialect);
  const text = JSON.stringify(body);
  const headers = {
    ...OPEN_TO_BROWSERS,
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    connection: 'close',
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  hangUp(socket, `HTTP/1.1 ${statusLine}\r\n${lines.join('')}\r\n${text}`);
}

/** Closed while more of its request is on its way, a connection is reset, and the answer lost. */
function hangUp(socket: Socket, lastWords: string): void {
  socket.end(lastWords);
  const deadline = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once('close', () => clearTimeout(deadline));
}

/**
 * The packet may begin with other requests; the one that cannot be read begins where the last of them ends.
 * Of headers that are too large, it may have the end alone: null then.
 */
function unreadablePath(error: { rawPacket?: unknown; bytesParsed?: number }): string | null {
  const packet = Buffer.isBuffer(error.rawPacket) ? error.rawPacket : Buffer.alloc(0);
  const end = packet.lastIndexOf(END_OF_HEADERS, error.bytesParsed);
  const own = packet.subarray(end < 0 ? 0 : end + END_OF_HEADERS.length);
  return askedPath(own.length === 0 ? packet : own);
}

function askedPath(chunk: Buffer): string | null {
  const line = chunk.subarray(0, MAX_REQUEST_LINE_LENGTH).toString('latin1');
  return /^[A-Z]+ (?:https?:\/\/[^/\s]*)?(\/\S*)/i.exec(line)?.[1] ?? null;
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
