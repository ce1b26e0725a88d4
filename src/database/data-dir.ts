import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { OperatorError } from '../errors.ts';
import { isSqliteBusy } from './errors.ts';

/** Readable only by the service's user, because the id of an unlocked quote is enough to take its money. */
const PRIVATE_FILE_MODE = 0o600;

export function sqliteFilePath(dataDir: string): string {
  return path.join(dataDir, 'nutpost.sqlite');
}

/** Creates the directory and an empty database file if they are missing. @throws OperatorError if that fails */
export function createDataDir(dataDir: string): void {
  try {
    fs.mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    fs.accessSync(dataDir, fs.constants.W_OK | fs.constants.X_OK);
    fs.closeSync(fs.openSync(sqliteFilePath(dataDir), 'a', PRIVATE_FILE_MODE));
  } catch (error) {
    throw new OperatorError(`DATA_DIR: cannot use ${dataDir} (${(error as Error).message}).`);
  }
}

/** Returns why this process cannot use or create a data directory; null if it can. Creates nothing. */
export function findDataDirProblem(dataDir: string): string | null {
  if (!fs.existsSync(dataDir)) {
    return findAccessProblem(nearestExistingDir(dataDir));
  }
  // A container volume often belongs to root, but the database file in it belongs to the service's user.
  const file = sqliteFilePath(dataDir);
  const ownedPath = fs.existsSync(file) ? file : dataDir;
  // Root could write to the directory, but would create files that the service cannot change.
  return fs.statSync(ownedPath).uid === process.getuid?.()
    ? findAccessProblem(dataDir)
    : 'it belongs to another user';
}

/** @throws OperatorError if the data directory contains no database or this process must not use it */
export function assertDatabaseExists(dataDir: string): void {
  const absolute = path.resolve(dataDir);
  const problem = fs.existsSync(absolute) ? findDataDirProblem(absolute) : null;
  if (problem !== null) {
    throw new OperatorError(
      `DATA_DIR: ${absolute} cannot be used (${problem}). Run this command as the user that runs the service.`,
    );
  }
  if (!fs.existsSync(sqliteFilePath(absolute))) {
    throw new OperatorError(
      `DATA_DIR: no database in ${absolute}. Check DATA_DIR, or run \`nutpost migrate\` to create one.`,
    );
  }
}

function nearestExistingDir(dir: string): string {
  return fs.existsSync(dir) ? dir : nearestExistingDir(path.dirname(dir));
}

function findAccessProblem(dir: string): string | null {
  try {
    fs.accessSync(dir, fs.constants.W_OK | fs.constants.X_OK);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

export function isAccessibleToOtherUsers(dataDir: string): boolean {
  const files = fs.readdirSync(dataDir).map((name) => path.join(dataDir, name));
  return [dataDir, ...files].some((file) => {
    // Does not throw if SQLite deletes its journal after `readdirSync`.
    const stats = fs.statSync(file, { throwIfNoEntry: false });
    return stats !== undefined && (stats.mode & 0o077) !== 0;
  });
}

/** Reserves the directory for this process, until the returned function is called or the process ends. */
export function lockDataDir(dataDir: string): () => void {
  const file = path.join(dataDir, 'lock.sqlite');
  // Node has no file locks, but SQLite does. Waits for a previous service that is still closing its database.
  const lock = new DatabaseSync(file, { timeout: 3_000, open: false });
  const release = () => lock.isOpen && lock.close();
  try {
    // Any user who can read the file can lock it, so it is created as a private file.
    fs.closeSync(fs.openSync(file, 'a', PRIVATE_FILE_MODE));
    lock.open();
    lock.exec('begin exclusive');
  } catch (error) {
    release();
    throw new OperatorError(
      isSqliteBusy(error)
        ? `The data directory ${dataDir} is in use by another nutpost process. Stop that process, or give this` +
            ' one its own DATA_DIR.'
        : `DATA_DIR: ${file} cannot be used (${(error as Error).message}).`,
    );
  }
  return release;
}

type GeneratedSecretName = 'jwt-secret' | 'treasury-secret';

/** Returns null if the file does not exist. @throws OperatorError if it cannot be read or is damaged */
export function readGeneratedSecret(dataDir: string, name: GeneratedSecretName): string | null {
  const file = path.join(dataDir, name);
  let secret: string;
  try {
    secret = fs.readFileSync(file, 'utf8').trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
      return null;
    }
    throw new OperatorError(`${file}: cannot be read (${(error as Error).message}).`);
  }
  if (secret.length < 32) {
    // A new JWT secret merely makes wallets sign in again, but a new treasury secret cannot decrypt the stored ecash.
    const removeHint = name === 'jwt-secret' ? ', or delete the file to generate a new secret' : '';
    throw new OperatorError(
      `${file}: the secret is too short, so the file is damaged. Restore it from a backup${removeHint}.`,
    );
  }
  return secret;
}

/** Generates the secret on first use. @throws OperatorError as {@link readGeneratedSecret} */
export function loadOrGenerateSecret(dataDir: string, name: GeneratedSecretName): string {
  const stored = readGeneratedSecret(dataDir, name);
  if (stored !== null) {
    return stored;
  }
  const file = path.join(dataDir, name);
  const secret = randomBytes(32).toString('hex');
  fs.writeFileSync(`${file}.new`, secret, { mode: PRIVATE_FILE_MODE, flush: true });
  fs.renameSync(`${file}.new`, file);
  return secret;
}
