import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { OperatorError } from '../errors.ts';
import { isSqliteBusy } from './sqlite-errors.ts';

/** A service that was told to stop may still be closing its database. */
const WAIT_MS = 3_000;

const PRIVATE_FILE = 0o600;

/**
 * Takes a data directory for this service alone.
 *
 * Node has no file locks of its own, but its SQLite takes one from the operating system, which releases it however the
 * process ends.
 *
 * @returns releases the directory
 * @throws OperatorError if another service has it, or the disk fails
 */
export function lockDataDir(dataDir: string): () => void {
  const file = path.join(dataDir, 'lock.sqlite');
  const lock = new DatabaseSync(file, { timeout: WAIT_MS, open: false });
  try {
    // Another user who may read it could lock it.
    fs.closeSync(fs.openSync(file, 'a', PRIVATE_FILE));
    lock.open();
    lock.exec('begin exclusive');
  } catch (error) {
    if (lock.isOpen) {
      lock.close();
    }
    if (isSqliteBusy(error)) {
      throw new OperatorError(
        `The data directory ${dataDir} is in use by another nutpost process. Stop that process, or give this` +
          ' one its own DATA_DIR.',
      );
    }
    throw new OperatorError(`DATA_DIR: ${file} cannot be used (${(error as Error).message}).`);
  }
  return () => {
    if (lock.isOpen) {
      lock.close();
    }
  };
}
