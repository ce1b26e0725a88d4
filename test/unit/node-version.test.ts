import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '../..');

/** Runs `bin/nutpost.js` while `process.versions.node` has this value. */
function startOnNode(version: string, ...args: string[]) {
  const override = `Object.defineProperty(process, 'versions', {
    value: { ...process.versions, node: '${version}' },
  })`;
  return spawnSync(
    process.execPath,
    ['--import', `data:text/javascript,${encodeURIComponent(override)}`, 'bin/nutpost.js', ...args],
    { cwd: ROOT, encoding: 'utf8' },
  );
}

describe('the Node version check', () => {
  it.each(['12.22.12', '20.20.2', '25.9.0'])('stops with one message on Node %s', (version) => {
    const { status, stdout, stderr } = startOnNode(version, 'serve');

    expect(status).toBe(1);
    expect(stdout).toBe('');
    expect(stderr).toBe(
      `nutpost needs Node.js 26 or later and this is ${version}: install a newer one, or run "npm ci" and then "npm start", which bring their own.\n`,
    );
  });

  it('uses only syntax that old Node versions can parse', () => {
    const source = readFileSync(path.join(ROOT, 'bin/nutpost.js'), 'utf8');

    expect(source).not.toMatch(/^\s*import\s*[{*"'\w]/m);
    expect(source).not.toMatch(/\b(const|let|await)\b|=>|`|\?\.|\?\?/);
  });
});
