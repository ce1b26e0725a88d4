import { randomBytes } from 'node:crypto';
import { negotiate } from '@fastify/accept-negotiator';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { type ErrorCode, RequestError, STATUS_BY_CODE } from '../errors.ts';
import { redact } from '../redaction.ts';
import { normaliseRequestPath, recordRoutedPaths, replaceNotFoundError } from './routed-paths.ts';
import type { apiError, lnurlError } from './schemas.ts';

/** Browser wallets on any origin may read all responses, including errors. */
export const CORS_HEADERS = { 'access-control-allow-origin': '*' };

declare module 'fastify' {
  interface FastifyInstance {
    /** Sends an error as a page for people; null if the pages are switched off. */
    sendErrorPage: ErrorPageSender | null;
  }
}

export type PageError = ClassifiedError;
export type ErrorPageSender = (reply: FastifyReply, error: PageError) => void;

/** Must be called before the routes are registered. */
export function registerErrorHandlers(
  app: FastifyInstance,
  sendErrorPage: ErrorPageSender | null,
): void {
  recordRoutedPaths(app);
  app.decorate('sendErrorPage', sendErrorPage);
  app.setErrorHandler(sendError);
  app.setNotFoundHandler((request, reply) =>
    sendError(new RequestError('not_found', 'Not found.'), request, reply),
  );
}

export function sendError(thrown: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const error = replaceNotFoundError(thrown, request, reply);
  const format = getErrorFormat(request.raw.url ?? '/');
  const { body, ...pageError } = renderError(error, format);
  const { status, errorId, retryAfterSeconds } = pageError;
  if (errorId !== null) {
    request.hasInternalError = true;
    request.log.error(
      { event: 'request_failed', err: error, errorId, route: request.routeOptions.url },
      'request failed',
    );
  }
  if (status === 401) {
    reply.header('www-authenticate', 'Nostr, Bearer');
  }
  if (request.ws) {
    // A rejected WebSocket handshake ends its connection.
    reply.header('connection', 'close');
  }
  if (retryAfterSeconds !== null) {
    reply.header('retry-after', retryAfterSeconds);
  }
  const { sendErrorPage } = request.server;
  if (sendErrorPage !== null && format === 'api' && isPageRequest(request)) {
    sendErrorPage(reply, pageError);
    return;
  }
  void reply.code(status).send(body);
}

/** Whether a browser opens a page. A client that calls the API does not prefer HTML to JSON. */
export function isPageRequest({ raw, headers, ws }: FastifyRequest): boolean {
  const isApi = normaliseRequestPath(raw.url ?? '/').startsWith('/api/');
  const types = ['application/json', 'text/html'];
  return !ws && !isApi && negotiate(headers.accept ?? '', types) === 'text/html';
}

/** `verify` is `lnurl` with one message for invalid requests. `any`, for unreadable paths, has the fields of all. */
export type ErrorFormat = 'api' | 'lnurl' | 'verify' | 'nip05' | 'any';

export function getErrorFormat(url: string): ErrorFormat {
  const path = normaliseRequestPath(url);
  if (path.startsWith('/.well-known/nostr.json')) {
    return 'nip05';
  }
  if (path.startsWith('/lnurl/verify')) {
    return 'verify';
  }
  return path.startsWith('/.well-known/lnurlp') ? 'lnurl' : 'api';
}

interface ClassifiedError {
  code: ErrorCode;
  status: number;
  message: string;
  /** Identifies an unexpected error in the message and in the log; null for an expected error. */
  errorId: string | null;
  retryAfterSeconds: number | null;
}

type RenderedError = ClassifiedError & {
  body: z.infer<typeof apiError> | z.infer<typeof lnurlError>;
};

export function renderError(error: unknown, format: ErrorFormat): RenderedError {
  const classified = classifyError(error);
  const { code, status, message } = classified;
  const isInvalid = status === 400;
  const apiBody = { error: true as const, code, message };
  const lnurlBody = { status: 'ERROR' as const, reason: message };
  switch (format) {
    case 'api':
      return { ...classified, body: apiBody };
    case 'nip05':
      // A failed lookup has status 200 (docs/api.md, "Handle errors").
      return { ...classified, status: status >= 500 ? 200 : status, body: apiBody };
    case 'verify':
      return isInvalid
        ? { ...classified, status: 200, body: { status: 'ERROR', reason: 'Not found' } }
        : { ...classified, body: lnurlBody };
    case 'lnurl':
      // LUD-06 reports errors in the body, which the libraries of payers' wallets only read if the status is 2xx.
      return { ...classified, status: isInvalid ? 200 : status, body: lnurlBody };
    case 'any':
      return { ...classified, body: { ...apiBody, ...lnurlBody } };
  }
}

/** Redacts the message, because it may contain text from clients and mints. */
function classifyError(error: unknown): ClassifiedError {
  if (error instanceof RequestError) {
    const { code, message, retryAfterSeconds } = error;
    const status = STATUS_BY_CODE[code];
    return { code, status, message: redact(message), errorId: null, retryAfterSeconds };
  }
  if (isClientError(error)) {
    const status = ERRORS_REPORTED_AS_400.includes(error.code) ? 400 : error.statusCode;
    const message =
      describeInvalidFields(error) ?? FRAMEWORK_MESSAGES[error.code] ?? 'The request is not valid.';
    const code = status === STATUS_BY_CODE.too_large ? 'too_large' : 'invalid';
    return { code, status, message: redact(message), errorId: null, retryAfterSeconds: null };
  }
  // Long enough to find one log line, short enough to read aloud.
  const errorId = randomBytes(4).toString('hex');
  const message = `The server could not complete the request. (id: ${errorId})`;
  return { code: 'internal', status: 500, message, errorId, retryAfterSeconds: null };
}

/** Fastify's own statuses for these errors, 414 and 415, are not part of the API. */
const ERRORS_REPORTED_AS_400 = ['FST_ERR_MAX_PARAM_LENGTH', 'FST_ERR_CTP_INVALID_MEDIA_TYPE'];

/** Used instead of Fastify's own messages, which are vague or repeat the client's input. */
const FRAMEWORK_MESSAGES: Record<string, string> = {
  FST_ERR_BAD_URL: 'The path is not a valid url.',
  FST_ERR_MAX_PARAM_LENGTH: 'A part of the path is too long.',
  FST_ERR_CTP_BODY_TOO_LARGE: 'The body is too large.',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'The body is not as long as was announced.',
};

/** Returns `field: message` for each field that failed its schema; undefined for other errors. */
function describeInvalidFields({ validation, validationContext }: FastifyError) {
  const problems = validation?.map(({ instancePath, message }) => {
    const field = instancePath.replace(/^\//, '').replaceAll('/', '.');
    return `${field || (validationContext ?? 'request')}: ${message}`;
  });
  return problems?.join('; ');
}

/** Whether Fastify has rejected a request of a client. */
function isClientError(error: unknown): error is FastifyError & { statusCode: number } {
  if (!(error instanceof Error)) {
    return false;
  }
  const { code, statusCode = 500 } = error as Partial<FastifyError>;
  return code !== undefined && statusCode < 500;
}
