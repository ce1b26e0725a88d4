import { randomBytes } from 'node:crypto';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { RequestError, type RequestErrorKind } from '../errors.ts';
import { redact } from '../redaction.ts';
import { setCommonHeaders } from './hooks.ts';
import type { apiError, lnurlError } from './schemas.ts';

/**
 * The formats of spec.md section 7. `verify` is LNURL's with "Not found" for every invalid request; `any` has the
 * fields of all formats, for requests without a readable path.
 */
export type ErrorFormat = 'api' | 'lnurl' | 'verify' | 'nip05' | 'any';

interface RenderedError {
  status: number;
  message: string;
  body: z.infer<typeof apiError> | z.infer<typeof lnurlError>;
  /** The id that the message and the log share; null for expected errors. */
  errorId: string | null;
  /** For the `Retry-After` header; null: no header. */
  retryAfterSeconds: number | null;
}

const STATUS_BY_ERROR_KIND: Record<RequestErrorKind, number> = {
  invalid: 400,
  unauthorized: 401,
  payment_required: 402,
  not_found: 404,
  conflict: 409,
  rate_limited: 429,
  unavailable: 500,
};

/** Unique enough to find one log line, short enough to read out. */
const ERROR_ID_BYTES = 4;

/** Escapes of printable ASCII, except the slash, which the router treats like the plain character. */
const REDUNDANT_ESCAPE = /%(?!2f)[2-7][0-9a-f]/gi;

export function registerErrorHandlers(app: FastifyInstance): void {
  app.setErrorHandler(sendError);
  app.setNotFoundHandler((request, reply) =>
    sendError(new RequestError('not_found', 'Not found.'), request, reply),
  );
}

/** Sends an error in the format of the request's path, also before any hook has run (`frameworkErrors`). */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const format = getErrorFormat(request.raw.url ?? '/');
  const { status, body, errorId, retryAfterSeconds } = renderError(error, format);
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
  setCommonHeaders(request, reply);
  void reply.code(status).send(body);
}

/** Returns the path as the router reads it: without repeated slashes and redundant escapes. */
export function normaliseRequestPath(url: string): string {
  return url
    .replace(/[?#].*$/, '')
    .replace(REDUNDANT_ESCAPE, decodeURIComponent)
    .replace(/\/{2,}/g, '/');
}

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

export function renderError(error: unknown, format: ErrorFormat): RenderedError {
  const classified = classifyError(error);
  const { status, message } = classified;
  const isInvalid = status === 400;
  const apiBody = { error: true as const, message };
  const lnurlBody = { status: 'ERROR' as const, reason: message };
  switch (format) {
    case 'api':
      return { ...classified, body: apiBody };
    case 'nip05':
      // A failed lookup is reported with status 200 (spec.md section 4.10).
      return { ...classified, status: status >= 500 ? 200 : status, body: apiBody };
    case 'verify':
      return isInvalid
        ? { ...classified, status: 200, body: { status: 'ERROR', reason: 'Not found' } }
        : { ...classified, body: lnurlBody };
    case 'lnurl':
      // LUD-06 reports invalid requests in the body, and payers' libraries require 2xx.
      return { ...classified, status: isInvalid ? 200 : status, body: lnurlBody };
    case 'any':
      return { ...classified, body: { ...apiBody, ...lnurlBody } };
  }
}

/** Redacts messages, because they may contain text from clients and mints. */
function classifyError(error: unknown): Omit<RenderedError, 'body'> {
  if (error instanceof RequestError) {
    const { kind, message, retryAfterSeconds } = error;
    const status = STATUS_BY_ERROR_KIND[kind];
    return { status, message: redact(message), errorId: null, retryAfterSeconds };
  }
  if (isFrameworkError(error) && error.statusCode !== undefined && error.statusCode < 500) {
    const status = ERRORS_REPORTED_AS_400.has(error.code) ? 400 : error.statusCode;
    const message = formatValidationErrors(error) ?? FRAMEWORK_MESSAGES[error.code];
    const text = redact(message ?? 'The request is not valid.');
    return { status, message: text, errorId: null, retryAfterSeconds: null };
  }
  const errorId = randomBytes(ERROR_ID_BYTES).toString('hex');
  const message = `The server could not complete the request. (id: ${errorId})`;
  return { status: 500, message, errorId, retryAfterSeconds: null };
}

/** Replace Fastify's messages, which may repeat the client's input or are too vague. */
const FRAMEWORK_MESSAGES: Record<string, string> = {
  FST_ERR_BAD_URL: 'The path is not a valid url.',
  FST_ERR_MAX_PARAM_LENGTH: 'A part of the path is too long.',
  FST_ERR_CTP_INVALID_JSON_BODY: 'The body is not valid JSON.',
  FST_ERR_CTP_EMPTY_JSON_BODY: 'The body is empty; JSON is expected.',
  FST_ERR_CTP_BODY_TOO_LARGE: 'The body is too large.',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'The body is not as long as was announced.',
};

/** Fastify would use statuses that are not in spec.md section 7. */
const ERRORS_REPORTED_AS_400: ReadonlySet<string> = new Set([
  'FST_ERR_MAX_PARAM_LENGTH',
  'FST_ERR_CTP_INVALID_MEDIA_TYPE',
]);

/** Returns `field: message` for each field that failed its schema; undefined for other errors. */
function formatValidationErrors({
  validation,
  validationContext,
}: FastifyError): string | undefined {
  const problems = validation?.map(({ instancePath, message }) => {
    const field = instancePath.replace(/^\//, '').replaceAll('/', '.');
    return `${field || (validationContext ?? 'request')}: ${message}`;
  });
  return problems?.join('; ');
}

function isFrameworkError(error: unknown): error is FastifyError {
  return error instanceof Error && 'statusCode' in error && 'code' in error;
}
