import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { createDataDir } from '../helpers/database/test-database.ts';
import { NutpostProcess, runNutpostCommand } from '../helpers/service/nutpost-process.ts';

it.each([
  ['--version extra', "Unexpected argument 'extra'"],
  ['--help extra', "Unexpected argument 'extra'"],
  ['serve extra', "Unexpected argument 'extra'"],
  ['migrate extra', "Unexpected argument 'extra'"],
  ['migrate --quiet', "Unknown option '--quiet'"],
  ['demo --port x', "--port must be a number from 0 to 65534 (got 'x')."],
  ['backup', 'Give <file or directory>'],
  ['backup x --keep 0', '--keep must be a number from 1'],
  ['restore', 'Give <file>'],
  ['user', 'Give one of these commands: `user list`, '],
  ['audit ', 'Give [npub | key | name]'],
  ['trap', 'Unknown command: trap'],
])('rejects `nutpost %s` with exit code 2 and prints the usage', async (line, problem) => {
  const { code, stdout, stderr } = await runNutpostCommand(line.split(' '), {});
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toMatch(/\n\nUsage: nutpost <command>\n\n {2}\S/);
  expect(stderr).toContain(problem);
});

it.each(['--help', 'help', '-h'])('lists all commands with %s', async (argument) => {
  const { code, stdout } = await runNutpostCommand([argument], {});
  expect(code).toBe(0);
  for (const command of ['serve', 'migrate', 'doctor', 'trace', 'user show', 'restore', 'demo']) {
    expect(stdout).toContain(`\n  ${command} `);
  }
});

it('prints the result of a migration and of an export as JSON', async () => {
  const { dataDir } = await createDataDir();
  const run = (...args: string[]) => runNutpostCommand(args, { DATA_DIR: dataDir });
  const migrated = await run('migrate', '--json');
  expect(JSON.parse(migrated.stdout)).toEqual({ outcome: 'up_to_date' });
  const exported = await run('export', '--json');
  expect(exported.stdout).toMatch(/^\{"archive":"nutpost",/);
  expect(JSON.parse(exported.stderr)).toMatchObject({ outcome: 'exported', rows: { users: 0 } });
});

it('reports standard output that is closed, without an exception', async () => {
  const command = new NutpostProcess('--help', {});
  command.closeStdout();
  expect(await command.waitForExit()).toEqual({
    code: 1,
    signal: null,
    stderr: 'Standard output was closed before the command finished.\n',
  });
});

it('reports standard output whose disk is full', () => {
  const program = `exec ${process.execPath} bin/nutpost.js --help > /dev/full`;
  const { status, stderr } = spawnSync('sh', ['-c', program], { encoding: 'utf8' });
  expect(status).toBe(1);
  expect(stderr).toMatch(/^Standard output could not be written \(ENOSPC: .+\) before the command/);
});
