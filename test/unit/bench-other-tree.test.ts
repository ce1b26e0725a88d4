import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { checkOut } from '../../bench/harness/other-tree.ts';

const run = promisify(execFile);

const PACKAGE = {
  name: 'planted',
  version: '1.0.0',
  dependencies: { installed: 'file:installed' },
};

/** Its one package is a folder of its own, so that nothing is asked of a registry. */
const LOCK = {
  name: PACKAGE.name,
  version: PACKAGE.version,
  lockfileVersion: 3,
  packages: {
    '': PACKAGE,
    installed: { version: '1.0.0' },
    'node_modules/installed': { resolved: 'installed', link: true },
  },
};

let clone: string;

beforeEach(async () => {
  clone = await mkdtemp(path.join(await realpath(tmpdir()), 'nutpost-test-'));
  await git('init', '--quiet');
});

afterEach(() => rm(clone, { recursive: true, force: true }));

it("measures another commit's service by the bench of today", async () => {
  await commit({
    'src/service.ts': 'older',
    'bench/invoice.ts': 'older',
    'bench/gone.ts': 'older',
  });
  await git('rm', '--quiet', 'bench/gone.ts');
  await commit({ 'src/service.ts': 'newer', 'bench/invoice.ts': 'newer' });
  await write({ 'bench/results/1.json': 'measured', 'bench/harness/new.ts': 'uncommitted' });

  await using other = await checkOut(clone, 'HEAD~1');

  expect(other.commit).toBe((await git('rev-parse', '--short', 'HEAD~1')).trim());
  expect(await read(other.folder, 'src/service.ts')).toBe('older');
  expect(await read(other.folder, 'bench/invoice.ts')).toBe('newer');
  expect(await read(other.folder, 'bench/harness/new.ts')).toBe('uncommitted');
  await expect(read(other.folder, 'bench/gone.ts')).rejects.toThrow('ENOENT');
  await expect(read(other.folder, 'bench/results/1.json')).rejects.toThrow('ENOENT');
});

it('shares the packages where both commits have the same', async () => {
  await commit({ 'src/service.ts': 'older' });

  await using other = await checkOut(clone, 'HEAD');

  expect(await realpath(path.join(other.folder, 'node_modules'))).toBe(
    path.join(clone, 'node_modules'),
  );
});

it('gives the other commit packages of its own where they differ', async () => {
  await commit({ 'src/service.ts': 'older' });
  await write({ 'package-lock.json': JSON.stringify({ ...LOCK, version: '2.0.0' }) });

  await using other = await checkOut(clone, 'HEAD');

  const installed = path.join(other.folder, 'node_modules/installed');
  expect(await realpath(installed)).toBe(path.join(other.folder, 'installed'));
  await expect(read(other.folder, 'node_modules/shared.js')).rejects.toThrow('ENOENT');
});

it('leaves nothing behind', async () => {
  await commit({ 'src/service.ts': 'older' });

  const other = await checkOut(clone, 'HEAD');
  await other[Symbol.asyncDispose]();

  expect((await git('worktree', 'list')).trim().split('\n')).toHaveLength(1);
  await expect(read(other.folder, 'src/service.ts')).rejects.toThrow('ENOENT');
  expect(await read(clone, 'node_modules/shared.js')).toBe('shared');
});

it('says it where there is no such commit', async () => {
  await commit({ 'src/service.ts': 'older' });

  await expect(checkOut(clone, 'HEAD~7')).rejects.toThrow('HEAD~7');
  expect((await git('worktree', 'list')).trim().split('\n')).toHaveLength(1);
});

/** Writes files, with those that every clone has, and commits them; packages are in none. */
async function commit(files: Record<string, string>): Promise<void> {
  await write({
    'package.json': JSON.stringify(PACKAGE),
    'installed/package.json': JSON.stringify({ name: 'installed', version: '1.0.0' }),
    'package-lock.json': JSON.stringify(LOCK),
    'bench/run.ts': '',
    'node_modules/shared.js': 'shared',
    '.gitignore': 'node_modules/\nbench/results/\n',
    ...files,
  });
  await git('add', '--all');
  await git('-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '--quiet', '-m', 'planted');
}

async function write(files: Record<string, string>): Promise<void> {
  for (const [name, content] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(clone, name)), { recursive: true });
    await writeFile(path.join(clone, name), content);
  }
}

function read(folder: string, name: string): Promise<string> {
  return readFile(path.join(folder, name), 'utf8');
}

async function git(...words: string[]): Promise<string> {
  return (await run('git', words, { cwd: clone })).stdout;
}
