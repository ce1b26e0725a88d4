import { Refusal } from '../domain/errors.ts';

/** While a database is unavailable every request fails; the log gets one line in this time. */
const REPORT_EVERY_MS = 10_000;

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

/** Returns a callback that reports at most one error in ten seconds. */
export function throttledReport(report: (error: Error) => void): (error: Error) => void {
  let reportedAtMs = Number.NEGATIVE_INFINITY;
  return (error) => {
    if (performance.now() - reportedAtMs >= REPORT_EVERY_MS) {
      reportedAtMs = performance.now();
      report(error);
    }
  };
}
