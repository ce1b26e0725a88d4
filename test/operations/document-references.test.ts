import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { brokenReferences } from './documents/references.ts';

/** The files, links, commands and settings that the documents name exist. */

const ROOT = path.resolve(import.meta.dirname, '../..');

const DOCUMENTS = ['README.md', 'CHANGELOG.md', 'SECURITY.md']
  .concat(globSync('docs/**/*.md', { cwd: ROOT }))
  .sort();

const usage = execFileSync(process.execPath, [path.join(ROOT, 'bin/nutpost.js'), '--help'], {
  encoding: 'utf8',
});
const project = { root: ROOT, usage };

it.each(DOCUMENTS)('%s names nothing that does not exist', (name) => {
  const text = readFileSync(path.join(ROOT, name), 'utf8');
  expect(brokenReferences(name, text, project)).toEqual([]);
});

it('finds what does not exist', () => {
  const text = '[a page](no-such-page.md), `npm run no-such-script`, `LIMIT_NONSENSE=1`';
  expect(brokenReferences('docs/planted.md', text, project)).toEqual([
    'link no-such-page.md',
    'npm run no-such-script',
    'setting LIMIT_NONSENSE',
  ]);
});
