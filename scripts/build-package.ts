import { cp, glob, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import path from 'node:path';
import { VERSION } from '../src/version.ts';
import { writeBrowserFiles } from './build-web.ts';

/**
 * `node scripts/build-package.ts`: writes what the npm package contains in addition to tracked files into dist/, before
 * `npm pack`: the version, the browser's files, and the TypeScript files as JavaScript, because Node strips no types from
 * files in node_modules.
 */

const SOURCE_FOLDERS = ['src', 'demo', 'migrations'];

/** Bundled into dist/web. */
const BROWSER_SOURCES = 'src/http/web/browser/';

/** A relative path of a module, in an import or a URL. */
const TYPESCRIPT_PATH = /(?<=(['"])\.{1,2}\/[^'"\n]*)\.ts(?=\1)/g;

process.chdir(path.join(import.meta.dirname, '..'));
await rm('dist', { recursive: true, force: true });
for await (const file of glob(SOURCE_FOLDERS.map((folder) => `${folder}/**/*.*`))) {
  if (!file.startsWith(BROWSER_SOURCES)) {
    await build(file);
  }
}
await writeBrowserFiles();
await writeFile('dist/version', `${VERSION}\n`);

async function build(file: string): Promise<void> {
  const target = path.join('dist', file);
  await mkdir(path.dirname(target), { recursive: true });
  if (path.extname(file) === '.ts') {
    // Types become white space, so that lines and columns in stack traces stay those of the source.
    const code = stripTypeScriptTypes(await readFile(file, 'utf8'));
    await writeFile(target.replace(/\.ts$/, '.js'), code.replaceAll(TYPESCRIPT_PATH, '.js'));
  } else {
    await cp(file, target);
  }
}
