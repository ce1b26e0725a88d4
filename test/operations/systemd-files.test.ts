import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { installDebianPackages, pathExists, runProgram } from '../../scripts/debian-packages.ts';
import { installSystemdScript } from './documents/systemd-script.ts';

const SYSTEMD_FOLDER = path.resolve(import.meta.dirname, '../../deploy/systemd');

const ANALYZER = '/usr/bin/systemd-analyze';

beforeAll(async () => {
  if (!(await pathExists(ANALYZER))) {
    await installDebianPackages('systemd');
  }
}, 300_000);

describe.each(['nutpost.service', 'nutpost-backup.service'])('the unit %s', (name) => {
  it('has no mistake that systemd finds', async () => {
    const unit = await readFile(path.join(SYSTEMD_FOLDER, name), 'utf8');
    const file = path.join(await useTemporaryFolder(), name);
    const verify = async (text: string) => {
      await writeFile(file, text);
      await runProgram(ANALYZER, ['verify', '--recursive-errors=no', file]);
    };
    await verify(unit);
    await expect(verify(unit.replace('ProtectHome=', 'ProtectHomes='))).rejects.toThrow(
      "Unknown key 'ProtectHomes'",
    );
  });

  it('restricts what the service can do', async () => {
    // An exposure of at most 1.5, in tenths. A service without restrictions has 10.
    const options = ['--offline=true', '--threshold=15'];
    await runProgram(ANALYZER, ['security', ...options, path.join(SYSTEMD_FOLDER, name)]);
  });
});

it('the timer has no mistake that systemd finds', async () => {
  const folder = await useTemporaryFolder();
  for (const name of ['nutpost-backup.service', 'nutpost-backup.timer']) {
    await copyFile(path.join(SYSTEMD_FOLDER, name), path.join(folder, name));
  }
  const options = ['verify', '--recursive-errors=yes', path.join(folder, 'nutpost-backup.timer')];
  await runProgram(ANALYZER, options, { env: { SYSTEMD_UNIT_PATH: `${folder}:` } });
});

describe('the script nutpost', () => {
  it('starts systemd-run with the settings of the service and without the command in the description', async () => {
    const folder = await useTemporaryFolder();
    const settings = path.join(folder, 'nutpost.env');
    await installSystemdScript(folder, {}, { settings, dataDir: '/var/lib/nutpost' });
    // This fake `systemd-run` prints its arguments and then its input, one per line.
    await writeFile(path.join(folder, 'systemd-run'), '#!/bin/sh\nprintf "%s\\n" "$@"\ncat\n');
    const readFakeOutput = async (env: Record<string, string>) => {
      const script = 'echo a line | nutpost trace "a quote id"';
      const { stdout } = await runProgram('sh', ['-c', script], {
        env: { PATH: `${folder}:${process.env['PATH']}`, ...env },
      });
      return stdout.trimEnd().split('\n');
    };

    const output = await readFakeOutput({});
    expect(output).toContain(`--property=EnvironmentFile=${settings}`);
    expect(output).toContain('--pipe');
    // systemd writes the description to the journal. By default, the description is the whole command.
    expect(output).toContain('--description=nutpost');
    expect(output.slice(-3)).toEqual(['trace', 'a quote id', 'a line']);
    const otherSettings = path.join(folder, 'nutpost.new.env');
    await copyFile(settings, otherSettings);
    expect(await readFakeOutput({ NUTPOST_ENV: otherSettings })).toContain(
      `--property=EnvironmentFile=${otherSettings}`,
    );
    const withDataDir = await readFakeOutput({ DATA_DIR: 'restored' });
    expect(withDataDir.slice(withDataDir.indexOf('/usr/bin/env') + 1)).toContain(
      `DATA_DIR=${path.resolve('restored')}`,
    );
  });

  it('rejects settings of the shell that would not reach the command', async () => {
    const { run, settings } = await useScript({ DEFAULT_MINT_URL: 'https://mint.example' });
    // The script takes the names from .env.example, which has all of them (test/unit/config.test.ts).
    for (const name of ['HOST', 'DATABASE_URL', 'ZAP_SECRET_KEY']) {
      expect(await run('--version', { [name]: '1' })).toEqual({
        code: 2,
        stderr: expect.stringContaining(`${name} is set in this shell`),
      });
    }
    expect(await run('--version', {})).toEqual({ code: 0, stderr: '' });
    await writeFile(settings, 'DATABASE_URL=postgres://localhost/nutpost\n');
    expect(await run('--version', { DATA_DIR: 'restored' })).toEqual({
      code: 2,
      stderr: expect.stringContaining('DATA_DIR is set in this shell'),
    });
    expect(await run('--version', { NUTPOST_ENV: 'missing.env' })).toEqual({
      code: 2,
      stderr: expect.stringContaining('Cannot read the settings in'),
    });
  });

  it.each(['SIGTERM', 'SIGHUP'] as const)('stops its command when it gets %s', async (signal) => {
    const { start } = await useScript({ DEFAULT_MINT_URL: 'https://mint.example', PORT: '0' });
    const script = start('serve', {});
    let log = '';
    for await (const chunk of script.stdout.setEncoding('utf8')) {
      log += chunk;
      if (log.includes('"listening"')) {
        script.kill(signal);
      }
    }
    // Standard output ends when both the script and the service have exited.
    expect(log).toContain('"stopped"');
  });
});

async function useScript(env: Record<string, string>) {
  const folder = await useTemporaryFolder();
  const settings = path.join(folder, 'nutpost.env');
  await installSystemdScript(folder, env, { settings, dataDir: path.join(folder, 'data') });
  const PATH = `${folder}:${path.dirname(process.execPath)}:${process.env['PATH']}`;
  const start = (command: string, variables: Record<string, string>) => {
    const child: ChildProcessWithoutNullStreams = spawn('nutpost', [command], {
      env: { PATH, ...variables },
      cwd: folder,
    });
    onTestFinished(() => void child.kill());
    return child;
  };
  const run = async (command: string, variables: Record<string, string>) => {
    const child = start(command, variables);
    child.stdout.resume();
    const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'close')]);
    return { code, stderr };
  };
  return { start, run, settings };
}

async function useTemporaryFolder(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-systemd-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
