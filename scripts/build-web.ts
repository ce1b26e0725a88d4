import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

/**
 * `node scripts/build-web.ts`: bundles the browser's code into dist/web, for installations without development
 * dependencies. In a checkout, the service bundles it in memory instead (ADR 38).
 */

const SOURCE = fileURLToPath(new URL('../src/http/web/browser/', import.meta.url));
const TARGET = fileURLToPath(new URL('../dist/web/', import.meta.url));

const ENTRY_POINTS = [
  'style.css',
  'common.ts',
  'payment.ts',
  'invoice.ts',
  'service-worker.ts',
  'account/account.tsx',
  'collect/collect.tsx',
];

/** Returns the bundled files by name. Each script is one file, without imports (ADR 38). */
export async function bundleBrowserFiles(): Promise<Map<string, Uint8Array>> {
  const { outputFiles } = await build({
    entryPoints: ENTRY_POINTS.map((file) => path.join(SOURCE, file)),
    entryNames: '[name]',
    outdir: TARGET,
    tsconfig: path.join(SOURCE, 'tsconfig.json'),
    bundle: true,
    format: 'esm',
    minify: true,
    legalComments: 'none',
    target: ['es2022'],
    logLevel: 'silent',
    write: false,
  });
  return new Map(outputFiles.map((file) => [path.basename(file.path), file.contents]));
}

export async function writeBrowserFiles(): Promise<void> {
  const files = await bundleBrowserFiles();
  await rm(TARGET, { recursive: true, force: true });
  await mkdir(TARGET, { recursive: true });
  for (const [name, content] of files) {
    await writeFile(path.join(TARGET, name), content);
  }
}

if (import.meta.main) {
  await writeBrowserFiles();
}
