import { ERROR_REPORT_INTERVAL_MS } from './limits.ts';

// Result codes of SQLite (https://sqlite.org/rescode.html).
const BUSY = 5;
const CONSTRAINT = 19;

/** The codes of wrong statements: ERROR, TOOBIG, CONSTRAINT, MISMATCH, MISUSE and RANGE. */
const STATEMENT_ERROR_CODES = [1, 18, CONSTRAINT, 20, 21, 25];

const PRIMARY_CODE_MASK = 0xff;

export function isSqliteBusy(error: unknown): boolean {
  return sqliteResultCode(error) === BUSY;
}

export function isSqliteConstraintViolation(error: unknown): boolean {
  return sqliteResultCode(error) === CONSTRAINT;
}

/** Whether the database is locked, damaged, or on a full or broken disk. False if the statement is wrong. */
export function isSqliteFailure(error: unknown): boolean {
  const code = sqliteResultCode(error);
  return code !== null && !STATEMENT_ERROR_CODES.includes(code);
}

export class SqliteError extends Error {
  readonly errcode: number | null;

  constructor(message: string, errcode: number | null) {
    super(message);
    this.errcode = errcode;
  }
}

/** Returns the primary result code, or null if the error is not from SQLite. */
export function sqliteResultCode(error: unknown): number | null {
  return error instanceof Error && 'errcode' in error && error.errcode !== null
    ? Number(error.errcode) & PRIMARY_CODE_MASK
    : null;
}

/** Returns a function that passes at most one error per {@link ERROR_REPORT_INTERVAL_MS} to `report`. */
export function throttleErrorReports(report: (error: Error) => void): (error: Error) => void {
  let reportedAtMs = Number.NEGATIVE_INFINITY;
  return (error) => {
    if (performance.now() - reportedAtMs >= ERROR_REPORT_INTERVAL_MS) {
      reportedAtMs = performance.now();
      report(error);
    }
  };
}
