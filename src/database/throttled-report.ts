/** While a database is unavailable every request fails; the log gets one line in this time. */
const REPORT_EVERY_MS = 10_000;

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
