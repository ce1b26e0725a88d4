import fs from 'node:fs';
import path from 'node:path';

/**
 * Returns why this process must not use a data directory, or null if it can. Creates and opens nothing.
 *
 * @param dataDir absolute; it may be missing, for the first start creates it
 */
export function dataDirObstacle(dataDir: string): string | null {
  if (!fs.existsSync(dataDir)) {
    return writeObstacle(nearestExisting(dataDir));
  }
  // Root may write everywhere, but the service could not change files that root creates.
  return fs.statSync(dataDir).uid === process.getuid?.()
    ? writeObstacle(dataDir)
    : 'it belongs to another user';
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
