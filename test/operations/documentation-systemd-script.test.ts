import { readFileSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { runProgram } from '../../scripts/debian-packages.ts';
import { parseMarkdown } from './documents/markdown.ts';

/** The script in docs/operations/deployment.md that runs commands on a machine with systemd. */

const PAGE = path.resolve(import.meta.dirname, '../../docs/operations/deployment.md');

it('runs a command with the settings of the service, and keeps its arguments out of the journal', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-script-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const { blocks } = parseMarkdown(readFileSync(PAGE, 'utf8'));
  const script = blocks.find(({ text }) => text.startsWith('#!/bin/sh'))?.text ?? '';
  await writeFile(path.join(folder, 'nutpost'), script);
  // Instead of systemd, it prints its arguments and input.
  await writeFile(path.join(folder, 'systemd-run'), '#!/bin/sh\nprintf "%s\\n" "$@"\ncat\n');
  await chmod(path.join(folder, 'nutpost'), 0o755);
  await chmod(path.join(folder, 'systemd-run'), 0o755);
  const argumentsWith = async (env: Record<string, string>) => {
    const { stdout } = await runProgram('sh', ['-c', 'echo a line | nutpost trace "a quote id"'], {
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
