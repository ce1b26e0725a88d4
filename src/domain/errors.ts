/**
 * Why a request cannot be answered as asked. The boundary gives each nature its status and dialect;
 * the message is for the person or program that asked, so it never holds anything secret.
 */
export type RefusalNature =
  | 'invalid' // the request is wrong, and would be wrong again
  | 'unauthorized' // no, bad or expired authorization
  | 'payment_required'
  | 'not_found'
  | 'taken' // somebody else has it
  | 'too_many' // right, but too often: later
  | 'unavailable'; // right, but not now: a mint or the database does not answer

/** A refusal with a message that may be shown to whoever asked. Anything else thrown is a bug. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly nature: RefusalNature;
  /** After how many seconds it may be right; null where nobody knows. */
  readonly retryAfterSeconds: number | null;

  constructor(nature: RefusalNature, message: string, retryAfterSeconds: number | null = null) {
    super(message);
    this.nature = nature;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/**
 * What a client is told that asks too often.
 *
 * @param what is too often, as the beginning of a sentence
 * @param waitMs from now, until it may be asked again
 */
export function tooMany(what: string, waitMs: number): Refusal {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  return new Refusal('too_many', `${what} Try again in ${seconds} s.`, seconds);
}

/** What keeps a command from running and the person at the terminal can mend: one clear sentence. */
export class OperatorError extends Error {
  override readonly name = 'OperatorError';
}
