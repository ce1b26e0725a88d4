import type { PostgresPool } from 'kysely';
import { DatabaseUnavailable, throttledReport } from './unavailable.ts';

/**
 * A pool whose `connect` throws {@link DatabaseUnavailable} if there is no connection.
 *
 * @param onUnreachable called with the reason, at most once in ten seconds
 */
export function reachablePool(
  pool: PostgresPool,
  onUnreachable: (error: Error) => void,
): PostgresPool {
  const report = throttledReport(onUnreachable);
  return {
    options: pool.options,
    connect: async () => {
      try {
        return await pool.connect();
      } catch (error) {
        report(error as Error);
        throw new DatabaseUnavailable(error);
      }
    },
    end: () => pool.end(),
  };
}
