import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** Written by scripts/build-web.ts. */
const PREBUILT_DIRECTORY = fileURLToPath(new URL('../../../dist/web/', import.meta.url));

/** True in a checkout. There, prebuilt files are ignored, because they would hide a developer's changes. */
const isBundlerInstalled = canResolve('esbuild');

export function canLoadBrowserFiles(): boolean {
  return isBundlerInstalled || existsSync(PREBUILT_DIRECTORY);
}

/** Returns the scripts and the style sheet by name. */
export async function loadBrowserFiles(): Promise<ReadonlyMap<string, Uint8Array>> {
  if (isBundlerInstalled) {
    // biome-ignore lint/style/noRestrictedImports: in a checkout only; the container image contains prebuilt files
    const script = await import('../../../scripts/build-web.ts');
    return script.bundleBrowserFiles();
  }
  const files = new Map<string, Uint8Array>();
  for (const name of await readdir(PREBUILT_DIRECTORY)) {
    files.set(name, await readFile(path.join(PREBUILT_DIRECTORY, name)));
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
