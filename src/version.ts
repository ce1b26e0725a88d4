import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { findPackageJSON } from 'node:module';
import path from 'node:path';

const PACKAGE_FILE = findPackageJSON(import.meta.url) as string;

const { version: PACKAGE_VERSION } = JSON.parse(readFileSync(PACKAGE_FILE, 'utf8'));

/** Contains package.json. This module is in `src/`, or in `dist/src/` of the npm package. */
export const PACKAGE_FOLDER = path.dirname(PACKAGE_FILE);

/** The version in package.json; with the commit if that is not the release: `0.2.0+g92726cc`. */
export const VERSION = readVersion();

function readVersion(): string {
  if (existsSync(path.join(PACKAGE_FOLDER, '.git'))) {
    return readVersionFromGit();
  }
  // Written when the npm package or the container image is built.
  const file = path.join(PACKAGE_FOLDER, 'dist/version');
  return existsSync(file) ? readFileSync(file, 'utf8').trim() : `${PACKAGE_VERSION}+unreleased`;
}

function readVersionFromGit(): string {
  const options = ['--tags', `--match=v${PACKAGE_VERSION}`, '--always', '--abbrev=7'];
  try {
    // Prints v0.2.0 for the release, v0.2.0-3-g92726cc for a later commit, and 92726cc if there is no such tag.
    const described = execFileSync('git', ['describe', ...options], {
      cwd: PACKAGE_FOLDER,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
    return described === `v${PACKAGE_VERSION}`
      ? PACKAGE_VERSION
      : `${PACKAGE_VERSION}+g${described.replace(/^.*-g/, '')}`;
  } catch {
    return `${PACKAGE_VERSION}+unreleased`;
  }
}
