/**
 * What went wrong first, where cleaning up after it went wrong too: `using` throws the last failure, with
 * the one before it inside.
 */
export function firstCause(thrown: unknown): unknown {
  return thrown instanceof SuppressedError ? firstCause(thrown.suppressed) : thrown;
}
