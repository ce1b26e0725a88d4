import { createHash, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { PACKAGE_FOLDER } from '../../version.ts';

/** Written by scripts/build-web.ts. */
const PREBUILT_DIRECTORY = path.join(PACKAGE_FOLDER, 'dist/web');

/** True in a checkout. There, prebuilt files are ignored, because they would hide a developer's changes. */
const isBundlerInstalled =
  existsSync(path.join(PACKAGE_FOLDER, 'scripts')) && canResolve('esbuild');

/** The scripts and the style sheet. */
export interface BrowserFiles {
  /** Changes with the files. */
  version: string;
  /** Returns the files by name. */
  load: () => Promise<ReadonlyMap<string, Uint8Array>>;
}

export function canLoadBrowserFiles(): boolean {
  return isBundlerInstalled || existsSync(PREBUILT_DIRECTORY);
}

export async function findBrowserFiles(): Promise<BrowserFiles> {
  if (isBundlerInstalled) {
    // Any change of a file or package in a bundle takes effect when the process starts again.
    return { version: randomUUID(), load: bundle };
  }
  const files = new Map<string, Uint8Array>();
  const hash = createHash('sha256');
  for (const name of (await readdir(PREBUILT_DIRECTORY)).toSorted()) {
    const content = await readFile(path.join(PREBUILT_DIRECTORY, name));
    files.set(name, content);
    hash.update(name).update(content);
  }
  return { version: hash.digest('hex'), load: async () => files };
}

/** Kept, because tests start many services in a process, and it takes a second. */
let bundling: Promise<ReadonlyMap<string, Uint8Array>> | undefined;

async function bundle(): Promise<ReadonlyMap<string, Uint8Array>> {
  // biome-ignore lint/style/noRestrictedImports: in a checkout only; others have prebuilt files
  const script = await import('../../../scripts/build-web.ts');
  bundling ??= script.bundleBrowserFiles();
  return await bundling;
}

function canResolve(specifier: string): boolean {
  try {
    import.meta.resolve(specifier);
    return true;
  } catch {
    return false;
  }
}
