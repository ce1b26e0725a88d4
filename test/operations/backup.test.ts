import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { runProgram } from '../../scripts/debian-packages.ts';
import { sqliteFilePath } from '../../src/database/data-dir.ts';
import { openDatabase } from '../../src/database/database.ts';
import { createDataDir } from '../helpers/database/test-database.ts';
import { installRequiredPrograms } from './documents/example-environment.ts';
import { parseMarkdown } from './documents/markdown.ts';

const PAGE = path.resolve(import.meta.dirname, '../../docs/operations/backup.md');

const COPY_NAME = 'copy.sqlite';

const COPY_COMMANDS = parseMarkdown(fs.readFileSync(PAGE, 'utf8'))
  .blocks.map(({ text }) => text)
  .filter((text) => text.includes('vacuum into'))
  .map((script) => ({ tool: script.includes('node -e') ? 'Node' : 'sqlite3', script }));

const DOCUMENTED_DATA_DIR = '/var/lib/nutpost';

/** 40 MB in total. The file is so large that the writer commits many times during a copy. */
const ROW_COUNT = 4_000;
const LONG_VALUE = 'x'.repeat(10_000);

const COPY_TIMEOUT_SECONDS = 30;

const WRITER_PROGRAM = `
  const { parentPort, workerData } = require('node:worker_threads');
  const { DatabaseSync } = require('node:sqlite');
  const database = new DatabaseSync(workerData, { timeout: 10_000 });
  database.exec('pragma synchronous = off');
  const insert = database.prepare('insert into users (pubkey) values (?)');
  const pause = new Int32Array(new SharedArrayBuffer(4));
  for (let row = 0; ; row += 1) {
    insert.run('user ' + row);
    if (row === 0) parentPort.postMessage('writing');
    Atomics.wait(pause, 0, 0, 1);
  }
`;

beforeAll(installRequiredPrograms);

it.each(COPY_COMMANDS)(
  'copies the complete database with $tool during writes, readable only by the owner',
  async ({ script }) => {
    const { dataDir, remove } = await createDataDir();
    onTestFinished(remove);
    const file = sqliteFilePath(dataDir);
    await (await openDatabase({ kind: 'sqlite', dataDir }, () => undefined)).close();
    insertRows(file);
    const writer = new Worker(WRITER_PROGRAM, { eval: true, workerData: file });
    onTestFinished(async () => void (await writer.terminate()));
    await once(writer, 'message');

    const { stdout } = await runCopyCommand(script, dataDir);
    // The number of users, whom the writer adds.
    expect(stdout).toMatch(/^\d+\n$/);

    const copy = path.join(dataDir, COPY_NAME);
    expect(fs.statSync(copy).mode & 0o777).toBe(0o600);
    const database = new DatabaseSync(copy);
    onTestFinished(() => database.close());
    expect(database.prepare('pragma integrity_check').get()).toEqual({ integrity_check: 'ok' });
    expect(database.prepare('select count(*) as count from relays').get()).toEqual({
      count: ROW_COUNT,
    });
  },
);

it.each(COPY_COMMANDS)(
  'fails with $tool and creates no database if the data directory has none, or an empty file',
  async ({ script }) => {
    const { dataDir, remove } = await createDataDir();
    onTestFinished(remove);
    await expect(runCopyCommand(script, dataDir)).rejects.toThrow('unable to open database file');
    expect(fs.readdirSync(dataDir)).toEqual([]);
    fs.writeFileSync(sqliteFilePath(dataDir), '');
    await expect(runCopyCommand(script, dataDir)).rejects.toThrow('no such table: users');
  },
);

it('finds both copy commands in the document', () => {
  expect(COPY_COMMANDS.map(({ tool }) => tool)).toEqual(['sqlite3', 'Node']);
});

function runCopyCommand(script: string, dataDir: string) {
  const command = script.replaceAll(DOCUMENTED_DATA_DIR, dataDir);
  return runProgram('timeout', [`${COPY_TIMEOUT_SECONDS}`, 'sh', '-ec', command], {
    cwd: dataDir,
    env: { PATH: `${path.dirname(process.execPath)}:${process.env['PATH']}` },
  });
}

function insertRows(file: string): void {
  const database = new DatabaseSync(file);
  const insert = database.prepare('insert into relays (url, last_error) values (?, ?)');
  database.exec('begin');
  for (let row = 0; row < ROW_COUNT; row += 1) {
    insert.run(`wss://${row}.example`, LONG_VALUE);
  }
  database.exec('commit');
  database.close();
}
