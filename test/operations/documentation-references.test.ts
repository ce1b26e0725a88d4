import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { SETTING_NAMES } from '../../src/config.ts';
import { parseMarkdown } from './documents/markdown.ts';
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

it.each(DOCUMENTS)('has no command in %s that continues if a setting is not set', (name) => {
  const { blocks, prose } = parseMarkdown(readFileSync(path.join(ROOT, name), 'utf8'));
  const code = [
    prose,
    ...blocks.filter(({ language }) => language !== 'yaml').map(({ text }) => text),
  ].join('\n');
  const uses = [...code.matchAll(/\$\{?([A-Z_]+)(:\?)?/g)];
  const unguarded = uses.filter(
    ([, variable = '', guard]) => SETTING_NAMES.includes(variable) && guard === undefined,
  );
  expect(unguarded.map(([use]) => use)).toEqual([]);
});

it('names in docs/api.md the packages that the examples import, in the tested versions', () => {
  const { blocks } = parseMarkdown(readFileSync(path.join(ROOT, 'docs/api.md'), 'utf8'));
  const imports = blocks
    .filter(({ language }) => language === 'js')
    .flatMap(({ text }) => [...text.matchAll(/ from '((?:@[\w-]+\/)?[\w-]+)/g)])
    .map(([, name = '']) => name);
  const { dependencies, devDependencies } = packageJson;
  const versions: Record<string, string> = { ...dependencies, ...devDependencies };
  const packages = [...new Set(imports)].map((name) => `${name}@${versions[name]?.split('.')[0]}`);
  const command = blocks.find(({ text }) => text.startsWith('npm install '))?.text ?? '';
  expect(command.trim().split(' ').slice(2).sort()).toEqual(packages.sort());
});

it('quotes in docs/operations/limits.md only messages that the service sends', () => {
  const rows = readFileSync(path.join(ROOT, 'docs/operations/limits.md'), 'utf8').split('\n');
  const messages = rows.flatMap((row) => /^ *\| `(.*too many [^`]*)`/i.exec(row)?.[1] ?? []);
  expect(messages.length).toBeGreaterThan(8);
  const source = globSync('src/**/*.ts', { cwd: ROOT })
    .map((file) => readFileSync(path.join(ROOT, file), 'utf8'))
    .join('\n');
  expect(messages.filter((message) => !source.includes(message))).toEqual([]);
});
