import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Refusal } from '../domain/errors.ts';
import { OPEN_TO_BROWSERS } from './refusals.ts';
import { dialectOf, renderError } from './render-error.ts';

/** A refused connection stays open so long, for its answer to be read; see {@link hangUp}. */
const LINGER_MS = 1_000;

/** The path that decides how an error is said stands at the very beginning. */
const MAX_REQUEST_LINE_LENGTH = 200;

const END_OF_HEADERS = '\r\n\r\n';

const askedPaths = new WeakMap<Socket, string>();
const answers = new WeakMap<Socket, ServerResponse>();
const refusedSockets = new WeakSet<Socket>();

/**
 * Remembers what each connection asks for, and the answer that it got. Headers that are too large come
 * in several pieces, and the one at which the parser gives up says no more whom they were for.
 */
export function rememberConnections(server: Server): void {
  server.on('connection', (socket: Socket) => socket.on('data', rememberPath));
  server.on('request', (request, response) => answers.set(request.socket, response));
}

/** What a connection that has become a WebSocket says is no request any more. */
export function forgetConnection(socket: Socket): void {
  socket.off('data', rememberPath);
}

function rememberPath(this: Socket, chunk: Buffer): void {
  const path = askedPath(chunk);
  if (path !== null) {
    askedPaths.set(this, path);
  }
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
  const isOfAnsweredRequest = answer?.writableEnded === true && !answer.req.complete;
  if (!socket.writable || isOfAnsweredRequest) {
    socket.destroy();
    return;
  }
  refusedSockets.add(socket);
  const path = unreadablePath(error) ?? askedPaths.get(socket) ?? '/';
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

function refuse(socket: Socket, path: string, { statusLine, message }: typeof MALFORMED): void {
  const { body } = renderError(new Refusal('invalid', message), dialectOf(path));
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

/** The packet may begin with other requests; the one that cannot be read begins where the last of them ends. */
function unreadablePath(error: { rawPacket?: unknown; bytesParsed?: number }): string | null {
  const packet = Buffer.isBuffer(error.rawPacket) ? error.rawPacket : Buffer.alloc(0);
  const end = packet.lastIndexOf(END_OF_HEADERS, error.bytesParsed);
  const own = end < 0 ? null : askedPath(packet.subarray(end + END_OF_HEADERS.length));
  return own ?? askedPath(packet);
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
