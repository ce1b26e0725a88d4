import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { runProgram } from '../../scripts/debian-packages.ts';
import { sqliteFilePath } from '../../src/database/data-dir.ts';
import { openDatabase } from '../../src/database/database.ts';
import { createDataDir } from '../helpers/database.ts';
import { installRequiredPrograms } from './documents/example-environment.ts';
import { parseMarkdown } from './documents/markdown.ts';

/** The commands in docs/operations/backup.md that copy the SQLite file. */

const PAGE = path.resolve(import.meta.dirname, '../../docs/operations/backup.md');

const COPY = 'copy.sqlite';

const COMMANDS = parseMarkdown(fs.readFileSync(PAGE, 'utf8'))
  .blocks.map(({ text }) => text)
  .filter((text) => text.includes(`'${COPY}'`))
  .map((script) => ({ tool: script.includes('node -e') ? 'Node' : 'sqlite3', script }));

/** Large enough that the writer commits many times while it is copied: 40 MB. */
const ROWS = 4_000;
const LONG = 'x'.repeat(10_000);

/** A copy takes a second. */
const LIMIT_SECONDS = 30;

/** Commits a thousand times a second. */
const WRITER = `
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

it.each(COMMANDS)(
  'makes a complete, private copy while the service writes: $tool',
  async ({ script }) => {
    const { dataDir, remove } = await createDataDir();
    onTestFinished(remove);
    const file = sqliteFilePath(dataDir);
    await (await openDatabase({ kind: 'sqlite', dataDir }, () => undefined)).close();
    fill(file);
    const writer = new Worker(WRITER, { eval: true, workerData: file });
    onTestFinished(async () => void (await writer.terminate()));
    await once(writer, 'message');

    await runProgram('timeout', [`${LIMIT_SECONDS}`, 'sh', '-ec', `cd "$DATA_DIR"; ${script}`], {
      env: { DATA_DIR: dataDir, PATH: `${path.dirname(process.execPath)}:${process.env['PATH']}` },
    });

    const copy = path.join(dataDir, COPY);
    expect(fs.statSync(copy).mode & 0o777).toBe(0o600);
    const database = new DatabaseSync(copy);
    onTestFinished(() => database.close());
    expect(database.prepare('pragma integrity_check').get()).toEqual({ integrity_check: 'ok' });
    expect(database.prepare('select count(*) as count from relays').get()).toEqual({ count: ROWS });
  },
);

it('finds both commands', () => {
  expect(COMMANDS.map(({ tool }) => tool)).toEqual(['sqlite3', 'Node']);
});

function fill(file: string): void {
  const database = new DatabaseSync(file);
  const insert = database.prepare('insert into relays (url, last_result) values (?, ?)');
  database.exec('begin');
  for (let row = 0; row < ROWS; row += 1) {
    insert.run(`wss://${row}.example`, LONG);
  }
  database.exec('commit');
  database.close();
}
