import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { OperatorError } from '../errors.ts';
import { isSqliteBusy } from './errors.ts';

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

/** The permissions of users other than the owner. */
const OF_OTHERS = 0o077;

/**
 * Returns why this process must not use a data directory, or null if it can. Creates and opens nothing.
 *
 * @param dataDir absolute; it may be missing, for the first start creates it
 */
export function dataDirObstacle(dataDir: string): string | null {
  if (!fs.existsSync(dataDir)) {
    return writeObstacle(nearestExisting(dataDir));
  }
  // The owner of the directory may differ: a volume of a container often belongs to root.
  const file = sqliteFile(dataDir);
  const owned = fs.existsSync(file) ? file : dataDir;
  // Root may write everywhere, but the service could not change files that root creates.
  return fs.statSync(owned).uid === process.getuid?.()
    ? writeObstacle(dataDir)
    : 'it belongs to another user';
}

/** @throws OperatorError if no database was created in a data directory, or this process must not use it */
export function requireDatabase(dataDir: string): void {
  const absolute = path.resolve(dataDir);
  const obstacle = fs.existsSync(absolute) ? dataDirObstacle(absolute) : null;
  if (obstacle !== null) {
    throw new OperatorError(
      `DATA_DIR: ${absolute} cannot be used (${obstacle}). Run this command as the user that runs the service.`,
    );
  }
  if (!fs.existsSync(sqliteFile(absolute))) {
    throw new OperatorError(`DATA_DIR: there is no database in ${absolute}.`);
  }
}

function nearestExisting(folder: string): string {
  return fs.existsSync(folder) ? folder : nearestExisting(path.dirname(folder));
}

function writeObstacle(folder: string): string | null {
  try {
    fs.accessSync(folder, fs.constants.W_OK | fs.constants.X_OK);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Whether other users of the machine may access a data directory or a file in it. */
export function isOpenToOthers(dataDir: string): boolean {
  const names = fs.readdirSync(dataDir);
  return [dataDir, ...names.map((name) => path.join(dataDir, name))].some((each) => {
    // SQLite removes its journals when it closes.
    const stats = fs.statSync(each, { throwIfNoEntry: false });
    return stats !== undefined && (stats.mode & OF_OTHERS) !== 0;
  });
}

/** A service that was told to stop may still be closing its database. */
const WAIT_MS = 3_000;

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
