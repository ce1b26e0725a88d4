import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { OperatorError } from '../domain/errors.ts';

/** Another process has the data directory. */
export class DataDirInUseError extends OperatorError {}

/**
 * Takes a data directory for this process alone.
 *
 * Node has no file locks of its own, but its SQLite takes one from the operating system, which
 * releases it however the process ends: there is no stale lock after a crash.
 *
 * @param waitMs so long another process may take to let go of it; nothing else happens meanwhile
 * @returns lets go of the directory
 * @throws DataDirInUseError where another process has it
 */
export function lockDataDir(dataDir: string, waitMs: number): () => void {
  const lock = new DatabaseSync(path.join(dataDir, 'lock.sqlite'), { timeout: waitMs });
  try {
    lock.exec('begin exclusive');
  } catch (error) {
    lock.close();
    if (isBusy(error)) {
      throw new DataDirInUseError(
        `The data directory ${dataDir} is in use by another nutpost process, and two would destroy` +
          ' its database. Stop the other process, or give this one its own DATA_DIR.',
      );
    }
    throw error;
  }
  return () => lock.close();
}

const SQLITE_BUSY = 5;

function isBusy(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && error.errcode === SQLITE_BUSY;
}
