import { cp, mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { runProgram } from '../../scripts/debian-packages.ts';
import { VERSION } from '../../src/version.ts';

let folder: string;

beforeEach(async () => {
  folder = await realpath(await mkdtemp(path.join(tmpdir(), 'nutpost-version-')));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await writeFile(path.join(folder, 'package.json'), '{ "type": "module", "version": "1.2.3" }');
  await cp('src/version.ts', path.join(folder, 'src/version.ts'));
});

it('begins with the version of package.json', () => {
  expect(VERSION.split('+')[0]).toBe(packageJson.version);
});

describe('in a clone', () => {
  beforeEach(async () => {
    await git('init', '--quiet');
    await commit();
  });

  it('names the commit unless it is the one with the tag of this version', async () => {
    const hash = await git('rev-parse', '--short=7', 'HEAD');
    await git('tag', 'v1.2.2');
    expect(await readVersion()).toBe(`1.2.3+g${hash}`);
    await git('tag', '--annotate', '--message', 'release', 'v1.2.3');
    expect(await readVersion()).toBe('1.2.3');
    await commit();
    expect(await readVersion()).toBe(`1.2.3+g${await git('rev-parse', '--short=7', 'HEAD')}`);
  });

  it('ignores the version that an earlier build has stored', async () => {
    await storeVersion('1.2.3');
    expect(await readVersion()).toMatch(/^1\.2\.3\+g/);
  });
});

it('is what the build has stored, outside of a clone', async () => {
  await storeVersion('1.2.3+g92726cc\n');
  expect(await readVersion()).toBe('1.2.3+g92726cc');
});

it('is not that of a release if the build has stored none', async () => {
  expect(await readVersion()).toBe('1.2.3+unreleased');
});

async function readVersion(): Promise<string> {
  const script = "console.log((await import('./src/version.ts')).VERSION)";
  const { stdout } = await runProgram(process.execPath, ['-e', script], { cwd: folder });
  return stdout.trim();
}

async function git(...args: string[]): Promise<string> {
  const identity = ['-c', 'user.name=test', '-c', 'user.email=test@example.com'];
  return (await runProgram('git', [...identity, ...args], { cwd: folder })).stdout.trim();
}

function commit(): Promise<string> {
  return git('commit', '--quiet', '--allow-empty', '--message', 'a commit');
}

async function storeVersion(text: string): Promise<void> {
  await mkdir(path.join(folder, 'dist'));
  await writeFile(path.join(folder, 'dist/version'), text);
}
