import { chmod, copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { installDebianPackages, pathExists, runProgram } from '../../scripts/debian-packages.ts';

/** Tests the files in deploy/systemd/: the unit, and the script that runs nutpost commands. */

const SYSTEMD_FOLDER = path.resolve(import.meta.dirname, '../../deploy/systemd');

/** The package may have to be installed. */
const VERIFY_TIMEOUT_MS = 300_000;

const ANALYZER = '/usr/bin/systemd-analyze';

it('has a unit in which systemd finds no mistake', { timeout: VERIFY_TIMEOUT_MS }, async () => {
  if (!(await pathExists(ANALYZER))) {
    await installDebianPackages('systemd');
  }
  const folder = await useTemporaryFolder();
  const unit = await readFile(path.join(SYSTEMD_FOLDER, 'nutpost.service'), 'utf8');
  const verify = async (text: string) => {
    const file = path.join(folder, 'nutpost.service');
    // Node is at another path here.
    await writeFile(
      file,
      text.replace('ExecStart=/usr/bin/node ', `ExecStart=${process.execPath} `),
    );
    await runProgram(ANALYZER, ['verify', '--recursive-errors=no', file]);
  };
  await verify(unit);
  await expect(verify(unit.replace('ProtectHome=', 'ProtectHomes='))).rejects.toThrow(
    "Unknown key 'ProtectHomes'",
  );
});

it('starts systemd-run with the environment file of the service and without the command in the description', async () => {
  const folder = await useTemporaryFolder();
  await copyFile(path.join(SYSTEMD_FOLDER, 'nutpost'), path.join(folder, 'nutpost'));
  // This fake `systemd-run` prints its arguments and then its input, one per line.
  await writeFile(path.join(folder, 'systemd-run'), '#!/bin/sh\nprintf "%s\\n" "$@"\ncat\n');
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

async function useTemporaryFolder(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-systemd-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
