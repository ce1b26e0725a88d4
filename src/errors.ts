/** Why a request is refused. `http/errors.ts` gives each reason its status. */
export type RefusalNature =
  | 'invalid' // a retry would fail again
  | 'unauthorized'
  | 'payment_required'
  | 'not_found'
  | 'taken'
  | 'too_many'
  | 'unavailable'; // a mint or the database does not answer

/** An expected error, with a message for the client. Any other error is a bug. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly nature: RefusalNature;
  /** Seconds until a retry may succeed; null if unknown. */
  readonly retryAfterSeconds: number | null;

  constructor(nature: RefusalNature, message: string, retryAfterSeconds: number | null = null) {
    super(message);
    this.nature = nature;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/**
 * The database cannot be used now: its server is down, all connections are busy, or its disk is full. The client may
 * try again; the `cause` is for the log.
 */
export class DatabaseUnavailable extends Refusal {
  constructor(cause: unknown) {
    super('unavailable', 'The service is temporarily unavailable. Please try again.');
    this.cause = cause;
  }
}

/** What an error of a database says. Of a host with several addresses it has a code and no message. */
export function reasonOf(error: unknown): string {
  const { message = '', code = '', cause } = error as Error & { code?: string };
  return cause === undefined ? message || code : reasonOf(cause);
}

/**
 * Creates the error of a rate limit.
 *
 * @param what a sentence that names the limit
 * @param waitMs until a retry may succeed
 */
export function tooMany(what: string, waitMs: number): Refusal {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  return new Refusal('too_many', `${what} Try again in ${seconds} s.`, seconds);
}

/** An error that the operator can fix, in one sentence. */
export class OperatorError extends Error {
  override readonly name = 'OperatorError';
}

/** The log level of a failure that is retried: `warn` if a mint or the database is unavailable, `error` for a bug. */
export function retryLogLevel(error: unknown): 'warn' | 'error' {
  return error instanceof Refusal && error.nature === 'unavailable' ? 'warn' : 'error';
}
