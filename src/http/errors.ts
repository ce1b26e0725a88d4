import { randomBytes } from 'node:crypto';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { Refusal, type RefusalNature } from '../errors.ts';
import { redact } from '../redaction.ts';
import { setCommonHeaders } from './hooks.ts';
import type { apiError, lnurlError } from './schemas.ts';

/**
 * How an error is rendered (spec.md section 7): for the API, for LNURL, for a name lookup, or for a verify URL, which
 * uses LNURL's shape and reports every unreadable token as not found. `any` has the fields of all of them.
 */
export type Dialect = 'api' | 'lnurl' | 'verify' | 'nip05' | 'any';

type ApiError = z.infer<typeof apiError>;
type LnurlError = z.infer<typeof lnurlError>;

export interface RenderedError {
  status: number;
  message: string;
  body: ApiError | LnurlError | (ApiError & LnurlError);
  /** Of a bug or a broken dependency: the id in the message, to be logged with the error. Otherwise null. */
  errorId: string | null;
  /** For `Retry-After`; null: no such header. */
  retryAfterSeconds: number | null;
}

const STATUS_BY_NATURE: Record<RefusalNature, number> = {
  invalid: 400,
  unauthorized: 401,
  payment_required: 402,
  not_found: 404,
  taken: 409,
  too_many: 429,
  unavailable: 500,
};

/** Enough to find one line in a log, and short enough to be read out. */
const ERROR_ID_BYTES = 4;

/** Of printable ASCII, the escapes that lead to the same route: all but that of a slash. */
const NEEDLESS_ESCAPE = /%(?!2f)[2-7][0-9a-f]/gi;

/** Renders what handlers and hooks throw, and unknown paths. */
export function registerErrorHandlers(app: FastifyInstance): void {
  app.setErrorHandler(sendError);
  app.setNotFoundHandler((request, reply) =>
    sendError(new Refusal('not_found', 'Not found.'), request, reply),
  );
}

/** Renders an error in the dialect of its path. Fastify's `frameworkErrors` uses it too: no hook has run then. */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const { status, body, errorId, retryAfterSeconds } = renderError(
    error,
    dialectOf(request.raw.url ?? '/'),
  );
  if (errorId !== null) {
    request.hasFailed = true;
    request.log.error({ err: error, errorId, route: request.routeOptions.url }, 'a request failed');
  }
  if (status === 401) {
    reply.header('www-authenticate', 'Nostr, Bearer');
  }
  if (request.ws) {
    // The connection of a rejected handshake ends with this response.
    reply.header('connection', 'close');
  }
  if (retryAfterSeconds !== null) {
    reply.header('retry-after', retryAfterSeconds);
  }
  setCommonHeaders(request, reply);
  void reply.code(status).send(body);
}

/** Returns the path of a request's target as the router reads it: no repeated slashes, no needless escapes. */
export function routedPath(url: string): string {
  return url
    .replace(/[?#].*$/, '')
    .replace(NEEDLESS_ESCAPE, decodeURIComponent)
    .replace(/\/{2,}/g, '/');
}

export function dialectOf(url: string): Dialect {
  const path = routedPath(url);
  if (path.startsWith('/.well-known/nostr.json')) {
    return 'nip05';
  }
  if (path.startsWith('/lnurl/verify')) {
    return 'verify';
  }
  return path.startsWith('/.well-known/lnurlp') ? 'lnurl' : 'api';
}

export function renderError(error: unknown, dialect: Dialect): RenderedError {
  const described = describe(error);
  const { status, message } = described;
  const isInvalid = status === 400;
  const apiBody = { error: true as const, message };
  const lnurlBody = { status: 'ERROR' as const, reason: message };
  switch (dialect) {
    case 'api':
      return { ...described, body: apiBody };
    case 'nip05':
      // Clients of name lookups read the body even if the lookup failed.
      return { ...described, status: status >= 500 ? 200 : status, body: apiBody };
    case 'verify':
      return isInvalid
        ? { ...described, status: 200, body: { status: 'ERROR', reason: 'Not found' } }
        : { ...described, body: lnurlBody };
    case 'lnurl':
      // LUD-06 reports invalid requests in the body; payers' libraries insist on 2xx.
      return { ...described, status: isInvalid ? 200 : status, body: lnurlBody };
    case 'any':
      return { ...described, body: { ...apiBody, ...lnurlBody } };
  }
}

/** Messages are redacted, because they repeat text of clients and mints. */
function describe(error: unknown): Omit<RenderedError, 'body'> {
  if (error instanceof Refusal) {
    const { nature, message, retryAfterSeconds } = error;
    const status = STATUS_BY_NATURE[nature];
    return { status, message: redact(message), errorId: null, retryAfterSeconds };
  }
  if (isFrameworkError(error) && error.statusCode !== undefined && error.statusCode < 500) {
    return {
      status: UNSPECIFIED_STATUSES.has(error.code) ? 400 : error.statusCode,
      message: redact(
        validationMessage(error) ?? FRAMEWORK_MESSAGES[error.code] ?? 'The request is not valid.',
      ),
      errorId: null,
      retryAfterSeconds: null,
    };
  }
  const errorId = randomBytes(ERROR_ID_BYTES).toString('hex');
  const message = `The server could not complete the request. (id: ${errorId})`;
  return { status: 500, message, errorId, retryAfterSeconds: null };
}

/** Fastify's own messages may repeat what the client sent, or say too little. */
const FRAMEWORK_MESSAGES: Record<string, string> = {
  FST_ERR_BAD_URL: 'The path is not a valid url.',
  FST_ERR_MAX_PARAM_LENGTH: 'A part of the path is too long.',
  FST_ERR_CTP_INVALID_JSON_BODY: 'The body is not valid JSON.',
  FST_ERR_CTP_EMPTY_JSON_BODY: 'The body is empty; JSON is expected.',
  FST_ERR_CTP_BODY_TOO_LARGE: 'The body is too large.',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'The body is not as long as was announced.',
};

/** Fastify's errors with statuses that the specification does not have. */
const UNSPECIFIED_STATUSES: ReadonlySet<string> = new Set([
  'FST_ERR_MAX_PARAM_LENGTH',
  'FST_ERR_CTP_INVALID_MEDIA_TYPE',
]);

/** `field: what is wrong with it`, for each field of a body or query that failed its schema. */
function validationMessage(error: FastifyError): string | null {
  if (error.validation === undefined) {
    return null;
  }
  return error.validation
    .map(({ instancePath, message }) => {
      const field = instancePath.replace(/^\//, '').replaceAll('/', '.');
      return `${field === '' ? (error.validationContext ?? 'request') : field}: ${message}`;
    })
    .join('; ');
}

function isFrameworkError(error: unknown): error is FastifyError {
  return error instanceof Error && 'statusCode' in error && 'code' in error;
}
