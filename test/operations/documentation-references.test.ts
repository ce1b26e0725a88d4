import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { findBrokenReferences } from './documents/references.ts';

/** Checks that the files, links, commands and settings that the documents name exist. */

const ROOT = path.resolve(import.meta.dirname, '../..');

const DOCUMENTS = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md']
  .concat(globSync('docs/**/*.md', { cwd: ROOT }))
  .sort();

const usage = execFileSync(process.execPath, [path.join(ROOT, 'bin/nutpost.js'), '--help'], {
  encoding: 'utf8',
});
const project = { root: ROOT, usage };

it.each(DOCUMENTS)('finds no broken reference in %s', (name) => {
  const text = readFileSync(path.join(ROOT, name), 'utf8');
  expect(findBrokenReferences(name, text, project)).toEqual([]);
});

it('reports a link, an npm script and a setting that do not exist', () => {
  const text = '[a page](no-such-page.md), `npm run no-such-script`, `LIMIT_NONSENSE=1`';
  expect(findBrokenReferences('docs/example.md', text, project)).toEqual([
    'link no-such-page.md',
    'npm run no-such-script',
    'setting LIMIT_NONSENSE',
  ]);
});
