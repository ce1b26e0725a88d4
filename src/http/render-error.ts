import { randomBytes } from 'node:crypto';
import type { FastifyError } from 'fastify';
import type { z } from 'zod';
import { Refusal, type RefusalNature } from '../domain/errors.ts';
import { redact } from '../domain/redaction.ts';
import type { apiError, lnurlError } from './error-answers.ts';
import { routedPath } from './routed-path.ts';

/**
 * How an error is said: the API's way, LNURL's, or that of a name lookup (spec.md section 7). A verify
 * url speaks LNURL too, and says of every token that it cannot read that it was not found. Where it is not
 * known who asks, an answer has what any of them looks for.
 */
export type Dialect = 'api' | 'lnurl' | 'verify' | 'nip05' | 'any';

type ApiError = z.infer<typeof apiError>;
type LnurlError = z.infer<typeof lnurlError>;

/** An answer that tells of an error. */
export interface RenderedError {
  status: number;
  message: string;
  body: ApiError | LnurlError | (ApiError & LnurlError);
  /**
   * Of a bug or a broken dependency: log the error with this, which its message names, so that whoever
   * met it can be helped. Null where nothing is wrong here.
   */
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

/** The dialect of whoever asks for this path, whether there is a route or not. */
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

/** Renders anything that was thrown while a request was answered. */
export function renderError(error: unknown, dialect: Dialect): RenderedError {
  const described = describe(error);
  const { status, message } = described;
  const isRequestWrong = status === 400;
  switch (dialect) {
    case 'api':
      return { ...described, body: { error: true, message } };
    case 'nip05':
      // Clients of name lookups look at the body, whatever went wrong inside.
      return {
        ...described,
        status: status >= 500 ? 200 : status,
        body: { error: true, message },
      };
    case 'verify':
      return {
        ...described,
        status: isRequestWrong ? 200 : status,
        body: { status: 'ERROR', reason: isRequestWrong ? 'Not found' : message },
      };
    case 'lnurl':
      // LUD-06: what is wrong with a request is an answer too; payers' libraries insist on 2xx.
      return {
        ...described,
        status: isRequestWrong ? 200 : status,
        body: { status: 'ERROR', reason: message },
      };
    case 'any':
      return { ...described, body: { error: true, message, status: 'ERROR', reason: message } };
  }
}

/** Messages repeat words of clients and mints, and so go by the list of what is secret. */
function describe(error: unknown): Omit<RenderedError, 'body'> {
  if (error instanceof Refusal) {
    const { nature, message, retryAfterSeconds } = error;
    const status = STATUS_BY_NATURE[nature];
    return { status, message: redact(message), errorId: null, retryAfterSeconds };
  }
  if (isFrameworkError(error) && error.statusCode !== undefined && error.statusCode < 500) {
    return {
      status: refusalStatus(error),
      message: redact(validationMessage(error) ?? frameworkMessage(error)),
      errorId: null,
      retryAfterSeconds: null,
    };
  }
  const errorId = randomBytes(ERROR_ID_BYTES).toString('hex');
  const message = `The server could not complete the request. (id: ${errorId})`;
  return { status: 500, message, errorId, retryAfterSeconds: null };
}

/** Our words for the framework's: its own may repeat what the client sent, or say too little. */
function frameworkMessage(error: FastifyError): string {
  return FRAMEWORK_MESSAGES[error.code] ?? 'The request is not valid.';
}

const FRAMEWORK_MESSAGES: Record<string, string> = {
  FST_ERR_BAD_URL: 'The path is not a valid url.',
  FST_ERR_MAX_PARAM_LENGTH: 'A part of the path is too long.',
  FST_ERR_CTP_INVALID_JSON_BODY: 'The body is not valid JSON.',
  FST_ERR_CTP_EMPTY_JSON_BODY: 'The body is empty; JSON is expected.',
  FST_ERR_CTP_BODY_TOO_LARGE: 'The body is too large.',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'The body is not as long as was announced.',
};

/** Refused by the framework with statuses that the specification does not know. */
const WRONG_REQUESTS: ReadonlySet<string> = new Set([
  'FST_ERR_MAX_PARAM_LENGTH',
  'FST_ERR_CTP_INVALID_MEDIA_TYPE',
]);

function refusalStatus(error: FastifyError): number {
  const isOfTheRequest = WRONG_REQUESTS.has(error.code);
  return isOfTheRequest ? 400 : (error.statusCode ?? 400);
}

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
