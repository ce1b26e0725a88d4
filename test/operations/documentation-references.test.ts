import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { findBrokenReferences } from './documents/references.ts';

/** Checks that the files, links, commands and settings in the documents exist. */

const ROOT = path.resolve(import.meta.dirname, '../..');

const DOCUMENTS = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md']
  .concat(globSync('docs/**/*.md', { cwd: ROOT }))
  .sort();

const usage = execFileSync(process.execPath, [path.join(ROOT, 'bin/nutpost.js'), '--help'], {
  encoding: 'utf8',
});
const project = { root: ROOT, usage };

it.each(DOCUMENTS)('%s refers only to existing files, commands and settings', (name) => {
  const text = readFileSync(path.join(ROOT, name), 'utf8');
  expect(findBrokenReferences(name, text, project)).toEqual([]);
});

it('reports references to what does not exist', () => {
  const text = '[a page](no-such-page.md), `npm run no-such-script`, `LIMIT_NONSENSE=1`';
  expect(findBrokenReferences('docs/planted.md', text, project)).toEqual([
    'link no-such-page.md',
    'npm run no-such-script',
    'setting LIMIT_NONSENSE',
  ]);
});
