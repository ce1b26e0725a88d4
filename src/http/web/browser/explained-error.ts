import { t } from './translator.ts';

/** Its message is for users, in their language. Messages of other errors are for programmers, in English. */
export class ExplainedError extends Error {}

/** Returns the message of an {@link ExplainedError}, and quotes that of any other error. */
export function describeUnexpected(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return error instanceof ExplainedError
    ? message
    : t('account.unexpectedProblem', { reason: message.slice(0, 200) });
}
