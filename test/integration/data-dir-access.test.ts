import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { sqliteFilePath } from '../../src/database/data-dir.ts';
import { openDatabase, openExistingDatabase } from '../../src/database/database.ts';
import { startService } from '../../src/service.ts';
import { createDataDir, isPostgres } from '../helpers/database/test-database.ts';
import { LogCapture } from '../helpers/service/log-capture.ts';
import { runNutpostCommand } from '../helpers/service/nutpost-process.ts';
import { createTestConfig } from '../helpers/service/test-environment.ts';

const MINT_URL = 'http://127.0.0.1:1';

let dataDir: string;

beforeEach(async () => {
  const created = await createDataDir();
  onTestFinished(created.remove);
  dataDir = path.join(created.dataDir, 'data');
});

describe.skipIf(isPostgres)('the data directory', () => {
  it('is private from the first start, even with umask 000', async () => {
    const previousUmask = process.umask(0o000);
    onTestFinished(() => void process.umask(previousUmask));
    const generatedSecrets = { JWT_SECRET: '', TREASURY_SECRET: '', USERNAME_PRICE_SAT: '21' };
    const { lines } = await startCapturingLog(generatedSecrets);
    expect(lines.join('')).not.toContain('data_dir_permissions');
    expect(fs.readdirSync(dataDir).toSorted()).toEqual([
      'jwt-secret',
      'lock.sqlite',
      'lock.sqlite-journal',
      'nutpost.sqlite',
      'nutpost.sqlite-shm',
      'nutpost.sqlite-wal',
      'treasury-secret',
    ]);
    expect(modeOf(dataDir)).toBe(0o700);
    for (const name of fs.readdirSync(dataDir)) {
      expect(modeOf(path.join(dataDir, name)), name).toBe(0o600);
    }
  });

  it.each([
    ['the directory', 0o755, 0o600],
    // Anyone who can read a database file of SQLite can lock it.
    ['the database file', 0o700, 0o644],
  ])(
    'causes one warning at the start of the service if other users have access to %s',
    async (_case, dirMode, fileMode) => {
      fs.mkdirSync(dataDir);
      fs.writeFileSync(sqliteFilePath(dataDir), '');
      fs.chmodSync(dataDir, dirMode);
      fs.chmodSync(sqliteFilePath(dataDir), fileMode);
      const { lines } = await startCapturingLog();
      const warnings = lines.filter((line) => line.includes('"event":"data_dir_permissions"'));
      expect(warnings).toEqual([expect.stringContaining(`chmod -R go= ${dataDir}`)]);
    },
  );

  // Otherwise the command could create files that the service cannot change.
  it('is rejected by a command that another user runs', async () => {
    const location = { kind: 'sqlite', dataDir } as const;
    const database = await openDatabase(location, () => undefined);
    await database.close();
    const filesBefore = fs.readdirSync(dataDir);
    const getuid = vi.spyOn(process, 'getuid').mockReturnValue(fs.statSync(dataDir).uid + 1);
    onTestFinished(() => getuid.mockRestore());
    await expect(openExistingDatabase(location)).rejects.toThrow(
      `DATA_DIR: ${dataDir} cannot be used (it belongs to another user).` +
        ' Run this command as the user that runs the service.',
    );
    expect(fs.readdirSync(dataDir)).toEqual(filesBefore);
  });

  it('is not changed by an operator command or the doctor if its database is of another program', async () => {
    fs.mkdirSync(dataDir);
    const foreignDatabase = new DatabaseSync(sqliteFilePath(dataDir));
    foreignDatabase.exec('create table notes (text)');
    foreignDatabase.close();
    const bytesBefore = fs.readFileSync(sqliteFilePath(dataDir));
    const env = { DATA_DIR: dataDir };
    expect(await runNutpostCommand(['name', 'show', 'alice'], env)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('The database is older than this version of nutpost'),
    });
    await runNutpostCommand(['doctor'], env);
    expect(fs.readdirSync(dataDir)).toEqual(['nutpost.sqlite']);
    expect(fs.readFileSync(sqliteFilePath(dataDir))).toEqual(bytesBefore);
  });

  it('can be opened while another connection holds a lock for a moment as it closes the database', async () => {
    const location = { kind: 'sqlite', dataDir } as const;
    await (await openDatabase(location, () => undefined)).close();
    const workerData = sqliteFilePath(dataDir);
    const worker = new Worker(LOCK_FOR_A_MOMENT, { eval: true, workerData });
    const exited = once(worker, 'exit');
    await once(worker, 'message');
    const database = await openExistingDatabase(location);
    await database.close();
    await exited;
  });
});

/** The program of a worker: locks the database as SQLite does while the last connection closes a large database. */
const LOCK_FOR_A_MOMENT = `
  const { parentPort, workerData } = require('node:worker_threads');
  const { DatabaseSync } = require('node:sqlite');
  const database = new DatabaseSync(workerData);
  database.exec('pragma locking_mode = exclusive; begin immediate');
  parentPort.postMessage('locked');
  setTimeout(() => database.close(), 300);
`;

async function startCapturingLog(env: Record<string, string> = {}): Promise<LogCapture> {
  const captured = new LogCapture('warn');
  const config = createTestConfig(MINT_URL, { DATA_DIR: dataDir, ...env });
  const service = await startService(config, { log: captured.log });
  onTestFinished(() => service.stop());
  return captured;
}

function modeOf(file: string): number {
  return fs.statSync(file).mode & 0o777;
}
