import { globSync, readFileSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { parse } from 'yaml';
import { run } from '../../scripts/machine.ts';
import { readMarkdown } from './documents/markdown.ts';

/** What the documents tell an operator to do with systemd or a container engine, which tests lack. */

const ROOT = path.resolve(import.meta.dirname, '../..');

const DOCUMENTS = ['README.md', ...globSync('docs/**/*.md', { cwd: ROOT })].map((name) =>
  readFileSync(path.join(ROOT, name), 'utf8'),
);

/** Up to the service, behind options of which only `-e` has a value. */
const COMPOSE_COMMAND =
  /docker compose (?:exec|run|logs|stop|start)(?: -e \S+| --?[a-zA-Z-]+)* ([a-z]+)/g;

it('has a systemd unit that restarts the service for as long as PostgreSQL is away', () => {
  const unit = deploymentBlock('[Unit]');
  expect(unit).toMatch(/^\[Unit\]\n(?:.*\n)*?StartLimitIntervalSec=0\n(?:.*\n)*?\[Service\]/);
  expect(unit).toContain('\nRestart=always\n');
  expect(unit).toContain('\nRestartSec=2\n');
});

it('has a script that runs commands with the settings of the service, and without a trace', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-script-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await writeFile(path.join(folder, 'nutpost'), deploymentBlock('#!/bin/sh'));
  // Instead of systemd, it prints its arguments and input.
  await writeFile(path.join(folder, 'systemd-run'), '#!/bin/sh\nprintf "%s\\n" "$@"\ncat\n');
  await chmod(path.join(folder, 'nutpost'), 0o755);
  await chmod(path.join(folder, 'systemd-run'), 0o755);
  const argumentsWith = async (env: Record<string, string>) => {
    const { stdout } = await run('sh', ['-c', 'echo a line | nutpost trace "a quote id"'], {
      env: { PATH: `${folder}:${process.env['PATH']}`, ...env },
    });
    return stdout.trimEnd().split('\n');
  };

  const usual = await argumentsWith({});
  expect(usual).toContain('--property=EnvironmentFile=/etc/nutpost.env');
  expect(usual).toContain('--pipe');
  // systemd's own description would contain the whole command.
  expect(usual).toContain('--description=nutpost');
  expect(usual.slice(-4)).toEqual(['/opt/nutpost/bin/nutpost.js', 'trace', 'a quote id', 'a line']);
  expect(await argumentsWith({ NUTPOST_ENV: '/etc/nutpost.new.env' })).toContain(
    '--property=EnvironmentFile=/etc/nutpost.new.env',
  );
});

it('stops if DATABASE_URL is missing', () => {
  const uses = DOCUMENTS.flatMap((text) => text.match(/\$\{?DATABASE_URL.{0,3}/g) ?? []);
  expect(uses).not.toEqual([]);
  expect(uses.filter((use) => !use.startsWith(`\${DATABASE_URL:?`))).toEqual([]);
});

it('names services of docker-compose.yml', () => {
  const file = readFileSync(path.join(ROOT, 'docker-compose.yml'), 'utf8');
  const { services } = parse(file, { merge: true });
  const named = DOCUMENTS.flatMap((text) =>
    [...text.matchAll(COMPOSE_COMMAND)].map(([, service = '']) => service),
  );
  expect(named).toEqual(expect.arrayContaining(['nutpost', 'postgres']));
  expect(named.filter((service) => !Object.hasOwn(services, service))).toEqual([]);
});

function deploymentBlock(beginning: string): string {
  const text = readFileSync(path.join(ROOT, 'docs/operations/deployment.md'), 'utf8');
  const block = readMarkdown(text).blocks.find((each) => each.text.startsWith(beginning));
  if (block === undefined) {
    throw new Error(`no block begins with ${beginning}`);
  }
  return block.text;
}
