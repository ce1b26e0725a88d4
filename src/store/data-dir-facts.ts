import fs from 'node:fs';
import path from 'node:path';
import { hasDatabase } from './embedded.ts';

/** How the directory of an embedded database is. */
export interface DataDirFacts {
  /** As it is meant, from the root on. */
  path: string;
  hasDatabase: boolean;
  /** Why it cannot be written to or made, in the system's words; null: it can. */
  trouble: string | null;
  /** `others`: what is made in it by us is not theirs to change, and they could not go on. */
  owner: 'us' | 'others';
  /** On its file system, for who is not root. */
  freeBytes: number;
}

/** Looks at the directory of an embedded database; makes and opens nothing. */
export function examineDataDir(dataDir: string): DataDirFacts {
  const full = path.resolve(dataDir);
  const nearest = nearestThatExists(full);
  const { bavail, bsize } = fs.statfsSync(nearest);
  return {
    path: full,
    hasDatabase: hasDatabase(full),
    trouble: troubleWith(nearest),
    owner: fs.statSync(nearest).uid === process.getuid?.() || nearest !== full ? 'us' : 'others',
    freeBytes: bavail * bsize,
  };
}

/** The first start makes what is missing. */
function nearestThatExists(folder: string): string {
  return fs.existsSync(folder) ? folder : nearestThatExists(path.dirname(folder));
}

function troubleWith(folder: string): string | null {
  try {
    fs.accessSync(folder, fs.constants.W_OK | fs.constants.X_OK);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}
