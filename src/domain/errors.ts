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
