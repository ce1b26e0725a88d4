import { readFileSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { runProgram } from '../../scripts/debian-packages.ts';
import { parseMarkdown } from './documents/markdown.ts';

/** Tests the script in docs/operations/deployment.md that runs nutpost commands on a machine with systemd. */

const PAGE = path.resolve(import.meta.dirname, '../../docs/operations/deployment.md');

it('starts systemd-run with the environment file of the service and without the command in the description', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-script-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const { blocks } = parseMarkdown(readFileSync(PAGE, 'utf8'));
  const script = blocks.find(({ text }) => text.startsWith('#!/bin/sh'))?.text ?? '';
  await writeFile(path.join(folder, 'nutpost'), script);
  // This fake `systemd-run` prints its arguments and then its input, one per line.
  await writeFile(path.join(folder, 'systemd-run'), '#!/bin/sh\nprintf "%s\\n" "$@"\ncat\n');
  await chmod(path.join(folder, 'nutpost'), 0o755);
  await chmod(path.join(folder, 'systemd-run'), 0o755);
  const readFakeOutput = async (env: Record<string, string>) => {
    const { stdout } = await runProgram('sh', ['-c', 'echo a line | nutpost trace "a quote id"'], {
      env: { PATH: `${folder}:${process.env['PATH']}`, ...env },
    });
    return stdout.trimEnd().split('\n');
  };

  const output = await readFakeOutput({});
  expect(output).toContain('--property=EnvironmentFile=/etc/nutpost.env');
  expect(output).toContain('--pipe');
  // systemd writes the description to the journal. By default, the description is the whole command.
  expect(output).toContain('--description=nutpost');
  expect(output.slice(-4)).toEqual([
    '/opt/nutpost/bin/nutpost.js',
    'trace',
    'a quote id',
    'a line',
  ]);
  expect(await readFakeOutput({ NUTPOST_ENV: '/etc/nutpost.new.env' })).toContain(
    '--property=EnvironmentFile=/etc/nutpost.new.env',
  );
});
