import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import packageJson from '../../package.json' with { type: 'json' };
import { findReleaseNotes, linkToFiles } from '../../scripts/release-notes.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');

const { version, repository } = packageJson;
const [major, minor] = version.split('.');
/** Such as `OWNER/nutpost`. */
const repositoryName = /github\.com\/(.+)\.git$/.exec(repository.url)?.[1] ?? '';

const read = (file: string) => readFileSync(path.join(ROOT, file), 'utf8');

const trackedFiles = execFileSync('git', ['ls-files', '-z', ':!test'], {
  cwd: ROOT,
  encoding: 'utf8',
})
  .split('\0')
  .filter((file) => /\.(?:md|ya?ml|json|jsonc|toml|ts|sh)$|\/nutpost$/.test(file));

describe('files that name the repository or the image', () => {
  it('name those of package.json', () => {
    const names = trackedFiles.flatMap((file) =>
      Array.from(
        read(file).matchAll(/(?:github\.com|ghcr\.io)\/([\w.-]+\/nutpost)\b/g),
        ([, name]) => `${file}: ${name}`,
      ),
    );
    expect(names.length).toBeGreaterThan(5);
    expect(names.filter((name) => !name.endsWith(`: ${repositoryName}`))).toEqual([]);
  });

  it('name the version of package.json, in full or without the last number', () => {
    const image = new RegExp(`${repositoryName}:([\\w.-]+)`, 'g');
    const tags = trackedFiles.flatMap((file) =>
      Array.from(read(file).matchAll(image), ([, tag = '']) => `${file}: ${tag}`),
    );
    expect(tags.length).toBeGreaterThan(2);
    const expected = [version, `${major}.${minor}`];
    expect(tags.filter((tag) => !expected.includes(tag.replace(/^.*: /, '')))).toEqual([]);
    const { images } = parse(read('deploy/kubernetes/kustomization.yaml'));
    expect(images).toMatchObject([{ newTag: version }]);
    expect(parse(read('deploy/umbrel/nutpost-server/umbrel-app.yml')).version).toBe(version);
    expect(read('deploy/startos/startos/index.ts')).toContain(`version: '${version}:`);
    expect(read('deploy/yunohost/manifest.toml')).toContain(`version = "${version}~ynh`);
    expect(read('deploy/yunohost/manifest.toml')).toContain(`/v${version}/nutpost-${version}.tgz"`);
    expect(read('docs/operations/deployment.md')).toContain(`version=${version}\n`);
  });
});

describe('the notes of a release', () => {
  const changelog =
    '# Changelog\n\n## Unreleased\n\nNext\n\n## 1.2.0 (2026-12-01)\n\n### A\n\nB\n\n## 1.1.0\n';

  it('are the section of its version', () => {
    expect(findReleaseNotes(changelog, '1.2.0')).toBe('### A\n\nB');
  });

  it('are refused if the section is missing or empty', () => {
    expect(() => findReleaseNotes(changelog, '1.2')).toThrow('no section "## 1.2"');
    expect(() => findReleaseNotes(changelog, '1.1.0')).toThrow('or it is empty');
  });

  it('link to the files of the release', () => {
    const notes = '[a](docs/shop.md), [b](https://semver.org)';
    expect(linkToFiles(notes, 'https://host.example/v1')).toBe(
      '[a](https://host.example/v1/docs/shop.md), [b](https://semver.org)',
    );
  });

  it('are refused if the tag is not that of the version', () => {
    const script = path.join(ROOT, 'scripts/release-notes.ts');
    expect(() => execFileSync(process.execPath, [script, 'v0.0.1'], { cwd: ROOT })).toThrow(
      `the version in package.json is ${version}`,
    );
  });
});
