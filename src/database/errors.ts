// SQLite's result codes (https://sqlite.org/rescode.html).

const ERROR = 1;
const BUSY = 5;
const TOOBIG = 18;
const CONSTRAINT = 19;
const MISMATCH = 20;
const MISUSE = 21;
const RANGE = 25;

/** The statement is at fault. With any other code, the database or its disk is. */
const STATEMENT_CODES = [ERROR, TOOBIG, CONSTRAINT, MISMATCH, MISUSE, RANGE];

/** The lower byte of the extended result codes. */
const PRIMARY_CODE = 0xff;

/** Whether another process has locked the database. */
export function isSqliteBusy(error: unknown): boolean {
  return resultCode(error) === BUSY;
}

/** Whether rows would contradict each other. */
export function isSqliteConstraint(error: unknown): boolean {
  return resultCode(error) === CONSTRAINT;
}

/** Whether the database failed, rather than the statement: it is locked or damaged, or its disk is full or broken. */
export function isSqliteFailure(error: unknown): boolean {
  const code = resultCode(error);
  return code !== null && !STATEMENT_CODES.includes(code);
}

/** An error of SQLite in another thread. */
export class SqliteError extends Error {
  readonly errcode: number | null;

  constructor(message: string, errcode: number | null) {
    super(message);
    this.errcode = errcode;
  }
}

/** Returns null for errors that are not SQLite's. */
export function resultCode(error: unknown): number | null {
  return error instanceof Error && 'errcode' in error && error.errcode !== null
    ? Number(error.errcode) & PRIMARY_CODE
    : null;
}

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
