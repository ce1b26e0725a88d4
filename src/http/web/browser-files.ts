import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { createStaticFile, type StaticFile } from '../static-files.ts';

/** Written by scripts/build-web.ts, for installations without development dependencies. */
const PREBUILT_DIRECTORY = fileURLToPath(new URL('../../../dist/web/', import.meta.url));

/** Whether {@link loadBrowserFiles} can work: this is a checkout after `npm ci`, or there are prebuilt files. */
export function canLoadBrowserFiles(): boolean {
  return isBundlerInstalled() || existsSync(PREBUILT_DIRECTORY);
}

/**
 * Returns the scripts and style sheets of the pages by name. In a checkout, ignores prebuilt files, which would hide a
 * developer's changes.
 */
export async function loadBrowserFiles(): Promise<ReadonlyMap<string, StaticFile>> {
  const contents = isBundlerInstalled() ? await bundleBrowserFiles() : await readPrebuiltFiles();
  const files = new Map<string, StaticFile>();
  for (const [name, content] of contents) {
    files.set(name, await createStaticFile(content, path.extname(name).slice(1)));
  }
  return files;
}

async function readPrebuiltFiles(): Promise<Map<string, Uint8Array>> {
  const contents = new Map<string, Uint8Array>();
  for (const name of await readdir(PREBUILT_DIRECTORY)) {
    contents.set(name, await readFile(path.join(PREBUILT_DIRECTORY, name)));
  }
  return contents;
}

async function bundleBrowserFiles(): Promise<Map<string, Uint8Array>> {
  // biome-ignore lint/style/noRestrictedImports: in a checkout only; the container image contains prebuilt files
  const script = await import('../../../scripts/build-web.ts');
  return script.bundleBrowserFiles();
}

function isBundlerInstalled(): boolean {
  try {
    import.meta.resolve('esbuild');
    return true;
  } catch {
    return false;
  }
}
