import fs from 'node:fs';
import path from 'node:path';
import { OperatorError } from '../errors.ts';
import { sqliteFile } from './data-dir.ts';

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
