import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { OperatorError } from '../domain/errors.ts';

/**
 * Takes a data directory for this process alone.
 *
 * Node has no file locks of its own, but its SQLite takes one from the operating system, which
 * releases it however the process ends: there is no stale lock after a crash.
 *
 * @returns lets go of the directory
 * @throws OperatorError where another process has it
 */
export function lockDataDir(dataDir: string): () => void {
  const lock = new DatabaseSync(path.join(dataDir, 'lock.sqlite'), { timeout: 0 });
  try {
    lock.exec('begin exclusive');
  } catch (error) {
    lock.close();
    if (isBusy(error)) {
      throw new OperatorError(
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
