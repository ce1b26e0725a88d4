import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import { beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { sqliteFilePath } from '../../src/database/data-dir.ts';
import { openDatabase, openExistingDatabase } from '../../src/database/database.ts';
import { startService } from '../../src/service.ts';
import { createDataDir } from '../helpers/database.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { runNutpostCommand } from '../helpers/nutpost-process.ts';
import { testConfig } from '../helpers/test-environment.ts';

/** A port on which nothing listens. */
const MINT_URL = 'http://127.0.0.1:1';

let dataDir: string;

beforeEach(async () => {
  const created = await createDataDir();
  onTestFinished(created.remove);
  dataDir = path.join(created.dataDir, 'data');
});

it('is private from the first start', async () => {
  const { lines } = await start();
  expect(lines.join('')).not.toContain('data_dir_permissions');
  expect(fs.readdirSync(dataDir)).toEqual(
    expect.arrayContaining(['lock.sqlite', 'nutpost.sqlite', 'nutpost.sqlite-wal']),
  );
  expect(modeOf(dataDir)).toBe(0o700);
  for (const name of fs.readdirSync(dataDir)) {
    expect(modeOf(path.join(dataDir, name)), name).toBe(0o600);
  }
});

it('causes one warning at start if other users can enter it', async () => {
  fs.mkdirSync(dataDir);
  fs.chmodSync(dataDir, 0o755);
  const { lines } = await start();
  const warnings = lines.filter((line) => line.includes('"event":"data_dir_permissions"'));
  expect(warnings).toEqual([expect.stringContaining(`chmod -R go= ${dataDir}`)]);
});

it('is not used by a command of another user, which would leave files that the service cannot change', async () => {
  const location = { kind: 'sqlite', dataDir } as const;
  const database = await openDatabase(location, () => undefined);
  await database.close();
  const before = fs.readdirSync(dataDir);
  const getuid = vi.spyOn(process, 'getuid').mockReturnValue(fs.statSync(dataDir).uid + 1);
  onTestFinished(() => getuid.mockRestore());
  await expect(openExistingDatabase(location, () => undefined)).rejects.toThrow(
    `DATA_DIR: ${dataDir} cannot be used (it belongs to another user).` +
      ' Run this command as the user that runs the service.',
  );
  expect(fs.readdirSync(dataDir)).toEqual(before);
});

it.each([
  ['an empty file', ''],
  ['a database of another program', 'create table notes (text)'],
])('is not changed by a command or the doctor if it contains %s', async (_, schema) => {
  fs.mkdirSync(dataDir);
  const other = new DatabaseSync(sqliteFilePath(dataDir));
  other.exec(schema);
  other.close();
  const before = fs.readFileSync(sqliteFilePath(dataDir));
  expect(await runNutpostCommand(['name', 'show', 'alice'], { DATA_DIR: dataDir })).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('The database is older than this version of nutpost'),
  });
  await runNutpostCommand(['doctor'], { DATA_DIR: dataDir });
  expect(fs.readdirSync(dataDir)).toEqual(['nutpost.sqlite']);
  expect(fs.readFileSync(sqliteFilePath(dataDir))).toEqual(before);
});

it('is opened as soon as another process that is closing it releases its lock', async () => {
  const location = { kind: 'sqlite', dataDir } as const;
  await (await openDatabase(location, () => undefined)).close();
  const closing = new Worker(CLOSING, { eval: true, workerData: sqliteFilePath(dataDir) });
  const exited = once(closing, 'exit');
  await once(closing, 'message');
  const database = await openExistingDatabase(location, () => undefined);
  await database.close();
  await exited;
});

it('is reported in one sentence if its path is too long for SQLite', async () => {
  const long = path.join(dataDir, ...Array.from({ length: 4 }, () => 'x'.repeat(200)));
  const location = { kind: 'sqlite', dataDir: long } as const;
  const problem = 'lock.sqlite cannot be used (unable to open database file).';
  await expect(openDatabase(location, () => undefined)).rejects.toThrow(problem);
});

/** Locks a database as SQLite does while the last connection closes a large one. */
const CLOSING = `
  const { parentPort, workerData } = require('node:worker_threads');
  const { DatabaseSync } = require('node:sqlite');
  const database = new DatabaseSync(workerData);
  database.exec('pragma locking_mode = exclusive; begin immediate');
  parentPort.postMessage('locked');
  setTimeout(() => database.close(), 300);
`;

async function start(): Promise<LogCapture> {
  const captured = new LogCapture('warn');
  const config = testConfig(MINT_URL, { DATA_DIR: dataDir });
  const service = await startService(config, { log: captured.log });
  onTestFinished(() => service.stop());
  return captured;
}

function modeOf(file: string): number {
  return fs.statSync(file).mode & 0o777;
}
