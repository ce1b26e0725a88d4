import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
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
  it('runs a command with the settings of the service, which those of the shell override', async () => {
    const { start } = await useScript({ PORT: 'of the file' });
    const readProblem = (env: Record<string, string>) => text(start(['migrate'], env).stderr);
    expect(await readProblem({})).toMatch(/^PORT .*of the file/);
    expect(await readProblem({ PORT: 'of the shell' })).toMatch(/^PORT .*of the shell/);
    const otherSettings = path.join(await useTemporaryFolder(), 'nutpost.env');
    await writeFile(otherSettings, 'PORT=of another file');
    expect(await readProblem({ NUTPOST_ENV: otherSettings })).toMatch(/^PORT .*of another file/);
  });

  it('stops its command when it gets SIGTERM', async () => {
    const { start } = await useScript({ DEFAULT_MINT_URL: 'https://mint.example', PORT: '0' });
    const script = start(['serve'], {});
    let log = '';
    for await (const chunk of script.stdout.setEncoding('utf8')) {
      log += chunk;
      if (log.includes('"listening"')) {
        script.kill('SIGTERM');
      }
    }
    // Standard output ends when both the script and the service have exited.
    expect(log).toContain('"stopped"');
  });
});

async function useScript(settings: Record<string, string>) {
  const folder = await useTemporaryFolder();
  const dataDir = path.join(folder, 'data');
  const settingsFile = path.join(folder, 'nutpost.env');
  await installSystemdScript(folder, settingsFile, { DATA_DIR: dataDir, ...settings });
  const PATH = `${folder}:${path.dirname(process.execPath)}:${process.env['PATH']}`;
  const start = (args: string[], env: Record<string, string>) => {
    const child: ChildProcessWithoutNullStreams = spawn('nutpost', args, { env: { PATH, ...env } });
    onTestFinished(() => void child.kill());
    return child;
  };
  return { start };
}

async function useTemporaryFolder(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-systemd-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
