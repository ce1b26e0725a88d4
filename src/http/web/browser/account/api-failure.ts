import { ApiError } from './api-client.ts';
import type { Failure } from './problem-text.ts';

/** Runs an action. If it fails, the message of the error explains the failure to the user. */
export function explained<Arguments extends unknown[]>(
  action: (...args: Arguments) => Promise<void>,
  describe: (failure: Failure) => string,
): (...args: Arguments) => Promise<void> {
  return async (...args) => {
    try {
      await action(...args);
    } catch (error) {
      throw new Error(describe(toFailure(error)), { cause: error });
    }
  };
}

export function toFailure(error: unknown): Failure {
  if (error instanceof ApiError) {
    const { status, message } = error;
    return { kind: 'refused', status, message };
  }
  // `fetch` fails with a TypeError. So does reading a response that was cut off.
  if (error instanceof TypeError) {
    return { kind: 'no_response' };
  }
  return { kind: 'other', message: error instanceof Error ? error.message : String(error) };
}
