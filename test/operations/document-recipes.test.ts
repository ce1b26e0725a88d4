import { globSync, readFileSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { run } from '../../scripts/machine.ts';
import { type CodeBlock, readMarkdown } from './documents/markdown.ts';

/** What the documents have an operator do that no test can run here: it needs systemd, or a container engine. */

const ROOT = path.resolve(import.meta.dirname, '../..');

const DOCUMENTS = ['README.md', ...globSync('docs/**/*.md', { cwd: ROOT })].map((name) => ({
  name,
  text: readFileSync(path.join(ROOT, name), 'utf8'),
}));

/** Up to the service, behind options of which `-e` alone has a value. */
const COMPOSE_COMMAND =
  /docker compose (?:exec|run|logs|stop|start)(?: -e \S+| --?[a-zA-Z-]+)* ([a-z]+)/g;

describe('the unit of systemd', () => {
  const unit = blockOfDeployment('[Unit]').text;
  const [, before = '', service = ''] =
    /^\[Unit\]\n(.*)\[Service\]\n(.*)\[Install\]/s.exec(unit) ?? [];

  it('starts it for as long as PostgreSQL is away', () => {
    expect(service).toContain('\nRestart=always\n');
    expect(service).toContain('\nRestartSec=2\n');
    expect(before).toContain('\nStartLimitIntervalSec=0\n');
  });
});

describe('the script that runs commands beside it', () => {
  let folder: string;
  let script: string;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'nutpost-script-'));
    script = path.join(folder, 'nutpost');
    await writeFile(script, blockOfDeployment('#!/bin/sh').text);
    // In the place of systemd, it tells what it was asked for and reads what it was given.
    await writeFile(path.join(folder, 'systemd-run'), '#!/bin/sh\nprintf "%s\\n" "$@"\ncat\n');
    await Promise.all([script, path.join(folder, 'systemd-run')].map((file) => chmod(file, 0o755)));
  });

  afterAll(() => rm(folder, { recursive: true, force: true }));

  const asked = async (env: Record<string, string>) => {
    const { stdout } = await run('sh', ['-c', 'echo a line | nutpost trace "a quote id"'], {
      env: { PATH: `${folder}:${process.env['PATH']}`, ...env },
    });
    return stdout.trimEnd().split('\n');
  };

  it('takes the settings of the service, or of the file that NUTPOST_ENV names', async () => {
    const settings = async (env: Record<string, string>) =>
      (await asked(env)).filter((option) => option.startsWith('--property=EnvironmentFile='));
    expect(await settings({})).toEqual(['--property=EnvironmentFile=/etc/nutpost.env']);
    expect(await settings({ NUTPOST_ENV: '/etc/nutpost.new.env' })).toEqual([
      '--property=EnvironmentFile=/etc/nutpost.new.env',
    ]);
  });

  it('passes on arguments and input, and tells the journal neither', async () => {
    const words = await asked({});
    expect(words).toContain('--pipe');
    expect(words.slice(-4)).toEqual([
      '/opt/nutpost/bin/nutpost.js',
      'trace',
      'a quote id',
      'a line',
    ]);
    // Without a description, systemd's own has the whole command.
    expect(words).toContain('--description=nutpost');
  });
});

describe('the commands of the documents', () => {
  it('work on no other database where DATABASE_URL is not set', () => {
    const lines = DOCUMENTS.flatMap(({ text }) => text.split('\n'));
    const uses = lines.filter((line) => /\$\{?DATABASE_URL/.test(line));
    expect(uses).not.toEqual([]);
    expect(uses.filter((line) => /\$\{?DATABASE_URL(?!:\?\})/.test(line))).toEqual([]);
  });

  it('speak of services that docker-compose.yml has', () => {
    const { services } = parse(readFileSync(path.join(ROOT, 'docker-compose.yml'), 'utf8'), {
      merge: true,
    });
    const named = DOCUMENTS.flatMap(({ text }) =>
      [...text.matchAll(COMPOSE_COMMAND)].map(([, service = '']) => service),
    );
    expect(named).toEqual(expect.arrayContaining(['nutpost', 'postgres']));
    expect(named.filter((service) => !Object.hasOwn(services, service))).toEqual([]);
  });
});

function blockOfDeployment(beginning: string): CodeBlock {
  const text = readFileSync(path.join(ROOT, 'docs/operations/deployment.md'), 'utf8');
  const block = readMarkdown(text).blocks.find((each) => each.text.startsWith(beginning));
  if (block === undefined) {
    throw new Error(`no block begins with ${beginning}`);
  }
  return block;
}
