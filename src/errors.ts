/** The error codes of the API (docs/api.md, "Handle errors"), and their HTTP statuses. */
export const STATUS_BY_CODE = {
  invalid: 400,
  unauthorized: 401,
  payment_required: 402,
  not_found: 404,
  method_not_allowed: 405,
  timeout: 408,
  too_large: 413,
  rate_limited: 429,
  internal: 500,
  // npub.cash returns only 500. Its clients treat 503 as 500 (RFC 9110 section 15); others know that a retry helps.
  database_unavailable: 503,
  // A server that this service depends on does not work, usually a mint.
  unavailable: 500,
  mint_unusable: 400,
  // The operator has limited the choice of mints.
  mint_not_allowed: 400,
  locking_unsupported: 400,
  // RECIPIENTS=members.
  not_a_member: 400,
  invitation_invalid: 400,
  name_invalid: 400,
  name_reserved: 400,
  name_taken: 409,
  name_not_for_sale: 400,
  // The outcome of the purchase is not known yet. The client repeats the request with the same token.
  purchase_in_progress: 503,
  // Another purchase of this key is in progress, with another token.
  token_not_used: 409,
} as const;

export type ErrorCode = keyof typeof STATUS_BY_CODE;

/** Fails a request. The client receives the code and the message. */
export class RequestError extends Error {
  override readonly name = 'RequestError';
  readonly code: ErrorCode;
  /** Seconds until a retry may succeed; null if unknown. */
  readonly retryAfterSeconds: number | null;

  constructor(code: ErrorCode, message: string, retryAfterSeconds: number | null = null) {
    super(message);
    this.code = code;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** The database is down, read-only or too slow, or its disk is full. Clients do not receive the `cause`. */
export class DatabaseUnavailableError extends RequestError {
  constructor(cause: unknown) {
    // A failover usually takes a few seconds.
    super('database_unavailable', 'The service is temporarily unavailable. Please try again.', 2);
    this.cause = cause;
  }
}

/** Returns the message of the innermost cause, or its code, because errors of connections may have no message. */
export function rootCauseMessage(error: unknown): string {
  const { message = '', code = '', cause } = error as Error & { code?: string };
  return cause === undefined ? message || code : rootCauseMessage(cause);
}

/** @param message a sentence that names the limit */
export function rateLimitError(message: string, retryAfterMs: number): RequestError {
  const seconds = Math.max(1, Math.ceil(retryAfterMs / 1000));
  return new RequestError('rate_limited', `${message} Try again in ${seconds} s.`, seconds);
}

/** Reports what the operator can fix. The terminal shows the message without a stack. */
export class OperatorError extends Error {
  override readonly name = 'OperatorError';
}

/** Chooses how to log a failure that is retried: `warn` if a mint or the database is unavailable, otherwise `error`. */
export function retryLogLevel(error: unknown): 'warn' | 'error' {
  const isUnavailable =
    error instanceof RequestError && ['unavailable', 'database_unavailable'].includes(error.code);
  return isUnavailable ? 'warn' : 'error';
}
