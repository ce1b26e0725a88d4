import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** Written by scripts/build-web.ts. */
const PREBUILT_DIRECTORY = fileURLToPath(new URL('../../../dist/web/', import.meta.url));
const SOURCE_DIRECTORY = fileURLToPath(new URL('browser/', import.meta.url));

/** True in a checkout. There, prebuilt files are ignored, because they would hide a developer's changes. */
const isBundlerInstalled = canResolve('esbuild');

/** The scripts and the style sheet. */
export interface BrowserFiles {
  /** Changes with the files. */
  hash: string;
  /** Returns the files by name. */
  load: () => Promise<ReadonlyMap<string, Uint8Array>>;
}

export function canLoadBrowserFiles(): boolean {
  return isBundlerInstalled || existsSync(PREBUILT_DIRECTORY);
}

export async function findBrowserFiles(): Promise<BrowserFiles> {
  const files = await readFiles(isBundlerInstalled ? SOURCE_DIRECTORY : PREBUILT_DIRECTORY);
  const hash = createHash('sha256');
  for (const [name, content] of files) {
    hash.update(name).update(content);
  }
  return {
    hash: hash.digest('hex'),
    load: isBundlerInstalled ? bundle : async () => files,
  };
}

async function bundle(): Promise<ReadonlyMap<string, Uint8Array>> {
  // biome-ignore lint/style/noRestrictedImports: in a checkout only; the container image contains prebuilt files
  const script = await import('../../../scripts/build-web.ts');
  return await script.bundleBrowserFiles();
}

async function readFiles(directory: string): Promise<ReadonlyMap<string, Uint8Array>> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = new Map<string, Uint8Array>();
  const names = entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(directory, path.join(entry.parentPath, entry.name)));
  for (const name of names.sort()) {
    files.set(name, await readFile(path.join(directory, name)));
  }
  return files;
}

function canResolve(specifier: string): boolean {
  try {
    import.meta.resolve(specifier);
    return true;
  } catch {
    return false;
  }
}
