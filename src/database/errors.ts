// Result codes of SQLite (https://sqlite.org/rescode.html).
const BUSY = 5;
const CONSTRAINT = 19;

/** The codes of wrong statements: ERROR, TOOBIG, CONSTRAINT, MISMATCH, MISUSE and RANGE. */
const STATEMENT_ERROR_CODES = [1, 18, CONSTRAINT, 20, 21, 25];

export function isSqliteBusy(error: unknown): boolean {
  return sqliteResultCode(error) === BUSY;
}

/** Returns whether the database is locked, damaged, or on a full or broken disk. False if the statement is wrong. */
export function isSqliteFailure(error: unknown): boolean {
  const code = sqliteResultCode(error);
  return code !== null && !STATEMENT_ERROR_CODES.includes(code);
}

/** Returns the primary result code, or null if the error is not from SQLite. */
export function sqliteResultCode(error: unknown): number | null {
  return error instanceof Error && 'errcode' in error && error.errcode !== null
    ? Number(error.errcode) & 0xff
    : null;
}

export function isConstraintViolation(error: unknown): boolean {
  // PostgreSQL's error class `integrity_constraint_violation`.
  const isPostgresViolation =
    error instanceof Error && 'code' in error && String(error.code).startsWith('23');
  return isPostgresViolation || sqliteResultCode(error) === CONSTRAINT;
}

/** Reports at most one error in ten seconds, because every request fails while the database is unavailable. */
export function throttleErrorReports(report: (error: Error) => void): (error: Error) => void {
  let reportedAtMs = Number.NEGATIVE_INFINITY;
  return (error) => {
    if (performance.now() - reportedAtMs >= 10_000) {
      reportedAtMs = performance.now();
      report(error);
    }
  };
}
