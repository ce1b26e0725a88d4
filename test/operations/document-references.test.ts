import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { brokenReferences } from './documents/references.ts';

/** What the documents speak of exists: files, links, commands and settings, under the names that they have. */

const ROOT = path.resolve(import.meta.dirname, '../..');

const DOCUMENTS = ['README.md', 'CHANGELOG.md', 'SECURITY.md']
  .concat(globSync('docs/**/*.md', { cwd: ROOT }))
  .sort();

const usage = execFileSync(process.execPath, [path.join(ROOT, 'bin/nutpost.js'), '--help'], {
  encoding: 'utf8',
});
const project = { root: ROOT, usage };

describe('the documents', () => {
  it.each(DOCUMENTS)('%s speaks of nothing that there is not', (name) => {
    const text = readFileSync(path.join(ROOT, name), 'utf8');
    expect(brokenReferences(name, text, project)).toEqual([]);
  });
});

describe('a document that speaks of what there is not', () => {
  it.each([
    ['[a page](no-such-page.md)', 'link no-such-page.md'],
    ['[a part](#no-such-part)', 'link #no-such-part'],
    ['[a part of a page](architecture.md#no-such-part)', 'link architecture.md#no-such-part'],
    ['`src/no-such-file.ts`', 'file src/no-such-file.ts'],
    ['```sh\nnpm run no-such-script\n```', 'npm run no-such-script'],
    ['```sh\nnutpost nonsense --json\n```', 'nutpost nonsense'],
    ['`nutpost treasury squander`', 'nutpost treasury squander'],
    ['`nutpost trace <npub> --nonsense`', 'nutpost --nonsense'],
    ['`docker compose exec nutpost node bin/nutpost.js nonsense`', 'nutpost nonsense'],
    ['`LIMIT_NONSENSE=1`', 'setting LIMIT_NONSENSE'],
    ['`curl "$base/api/v2/nonsense?limit=1"`', 'endpoint /api/v2/nonsense'],
    ['`NutpostNonsense`', 'alert NutpostNonsense'],
    ['`nutpost_nonsense_total`', 'metric nonsense_total'],
  ])('is found out: %j', (text, found) => {
    expect(brokenReferences('docs/planted.md', text, project)).toEqual([found]);
  });
});
