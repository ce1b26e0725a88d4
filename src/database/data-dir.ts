import fs from 'node:fs';
import path from 'node:path';
import { OperatorError } from '../errors.ts';

/** Only the user of the service may read: the ids of quotes are secret. */
const PRIVATE_DIR = 0o700;
const PRIVATE_FILE = 0o600;

/** Returns the path of the database in a data directory. */
export function sqliteFile(dataDir: string): string {
  return path.join(dataDir, 'nutpost.sqlite');
}

/** Creates a data directory that only this user may enter. @throws OperatorError if it cannot be used */
export function createDataDir(dataDir: string): void {
  try {
    fs.mkdirSync(dataDir, { recursive: true, mode: PRIVATE_DIR });
    fs.accessSync(dataDir, fs.constants.W_OK | fs.constants.X_OK);
    fs.closeSync(fs.openSync(sqliteFile(dataDir), 'a', PRIVATE_FILE));
  } catch (error) {
    throw new OperatorError(
      `DATA_DIR: the directory cannot be used (${(error as Error).message}).`,
    );
  }
}
