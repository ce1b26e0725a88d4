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
  | 'unavailable'; // right, but not now: a mint or the database does not answer

/** A refusal with a message that may be shown to whoever asked. Anything else thrown is a bug. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly nature: RefusalNature;

  constructor(nature: RefusalNature, message: string) {
    super(message);
    this.nature = nature;
  }
}

/** What keeps a command from running and the person at the terminal can mend: one clear sentence. */
export class OperatorError extends Error {
  override readonly name = 'OperatorError';
}
