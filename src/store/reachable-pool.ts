import type { PostgresPool } from 'kysely';
import { Refusal } from '../domain/errors.ts';

/** While a server is away every request finds that out; so often it is told. */
const TELL_EVERY_MS = 10_000;

/**
 * The database gives no connection: it is away, or all connections are busy. Whoever asked is told to
 * try again; the `cause` is for the log.
 */
class DatabaseUnavailable extends Refusal {
  constructor(cause: unknown) {
    super('unavailable', 'The service is temporarily unavailable. Please try again.');
    this.cause = cause;
  }
}

/**
 * A pool that refuses, rather than fails, where no connection can be had.
 *
 * @param onUnreachable told why, every ten seconds for as long as that lasts
 */
export function reachablePool(
  pool: PostgresPool,
  onUnreachable: (error: Error) => void,
): PostgresPool {
  let toldAtMs = Number.NEGATIVE_INFINITY;
  return {
    options: pool.options,
    connect: async () => {
      try {
        return await pool.connect();
      } catch (error) {
        if (performance.now() - toldAtMs >= TELL_EVERY_MS) {
          toldAtMs = performance.now();
          onUnreachable(error as Error);
        }
        throw new DatabaseUnavailable(error);
      }
    },
    end: () => pool.end(),
  };
}
