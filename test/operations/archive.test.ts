import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { type Database, type DatabaseLocation, openDatabase } from '../../src/database/database.ts';
import { listPaidQuotes } from '../../src/quotes/paid-list-store.ts';
import { insertQuotes } from '../../src/quotes/quote-store.ts';
import { insertRowsInEveryTable } from '../helpers/database/rows-of-every-table.ts';
import { createOperationsDatabase } from '../helpers/database/temporary-postgres-database.ts';
import { createDataDir } from '../helpers/database/test-database.ts';
import {
  buildUnpaidQuote,
  FIRST_PAID_AT_MS,
  insertPaidQuotes,
  randomPubkey,
} from '../helpers/recipients/quote-fixtures.ts';
import { FakeTerminal } from '../helpers/service/fake-terminal.ts';
import { runNutpostCommand } from '../helpers/service/nutpost-process.ts';
import { runOperatorCommand } from '../helpers/service/run-operator-command.ts';
import { TEST_JWT_SECRET } from '../helpers/service/test-environment.ts';

const USER_COUNT = 100;
const QUOTES_PER_USER = 200;
const MOVE_TIMEOUT_MS = 120_000;

/** Heap limit of both processes. It is too small for the whole archive, so they must stream the archive. */
const MAX_HEAP_MB = 112;

const PROGRAM = path.resolve(import.meta.dirname, '../../bin/nutpost.js');

const LAST_QUOTE_ID = 900;

let dataDir: string;
let removeDataDir: () => Promise<void>;

beforeAll(async () => {
  ({ dataDir, remove: removeDataDir } = await createDataDir());
  await insertManyPayments({ kind: 'sqlite', dataDir });
}, MOVE_TIMEOUT_MS);

afterAll(() => removeDataDir());

it(
  'moves 20,000 quotes from SQLite to PostgreSQL through a pipe, and keeps the quote list of every user',
  async () => {
    const { url, drop } = await createOperationsDatabase();
    onTestFinished(drop);
    const env = { DATABASE_URL: url, JWT_SECRET: TEST_JWT_SECRET };
    expect(await runNutpostCommand(['migrate'], env)).toMatchObject({ code: 0 });

    const exporting = startCommand('export', { DATA_DIR: dataDir });
    const importing = startCommand('import', env);
    const [exportSummary] = await Promise.all([
      text(exporting.stderr),
      once(exporting, 'exit').then(([code]) => expect(code).toBe(0)),
      once(importing, 'exit').then(([code]) => expect(code).toBe(0)),
      pipeline(exporting.stdout, importing.stdin),
    ]);

    expect(exportSummary).toMatch(/ {2}users +100\n {2}quotes +20,000\n {2}quote_events +20,000\n/);
    const sqliteLists = await readQuoteLists({ kind: 'sqlite', dataDir });
    expect(sqliteLists.map(({ total }) => total)).toEqual(Array(USER_COUNT).fill(QUOTES_PER_USER));
    expect(await readQuoteLists({ kind: 'postgres', url })).toEqual(sqliteLists);
  },
  MOVE_TIMEOUT_MS,
);

it('moves every stored value from SQLite to PostgreSQL and to another SQLite database', async () => {
  const { url, drop } = await createOperationsDatabase();
  onTestFinished(drop);
  const source = await openNewSqliteDatabase();
  const postgresTarget = await open({ kind: 'postgres', url });
  const sqliteTarget = await openNewSqliteDatabase();
  await insertRowsInEveryTable(source);
  const archive = await exportArchive(source);
  for (const target of [postgresTarget, sqliteTarget]) {
    expect(await importAndExport(archive, target)).toEqual(rowsOf(archive));
  }
  // A new quote gets an id that no imported quote has.
  for (const { db } of [postgresTarget, sqliteTarget]) {
    const [id] = await insertQuotes(db, [buildUnpaidQuote(randomPubkey())]);
    expect(id).toBe(LAST_QUOTE_ID + 1);
  }
});

it('exports a snapshot of SQLite without blocking writes', async () => {
  const { db } = await open({ kind: 'sqlite', dataDir });
  const exporting = startCommand('export', { DATA_DIR: dataDir });
  // While this test does not read, the pipe is full and the export waits.
  const [firstChunk] = await once(exporting.stdout, 'data');
  exporting.stdout.pause();
  const { numUpdatedRows } = await db
    .updateTable('quotes')
    .set({ comment: 'new' })
    .executeTakeFirst();
  expect(numUpdatedRows).toBe(BigInt(USER_COUNT * QUOTES_PER_USER));
  expect(exporting.exitCode).toBeNull();
  const archive = firstChunk + (await text(exporting.stdout));
  expect(archive.match(/"comment":null/g)).toHaveLength(USER_COUNT * QUOTES_PER_USER);
});

async function open(location: DatabaseLocation): Promise<Database> {
  const database = await openDatabase(location, () => undefined);
  onTestFinished(() => database.close());
  return database;
}

async function openNewSqliteDatabase(): Promise<Database> {
  const newDataDir = await createDataDir();
  onTestFinished(newDataDir.remove);
  return open({ kind: 'sqlite', dataDir: newDataDir.dataDir });
}

async function importAndExport(archive: string, target: Database): Promise<string[]> {
  const terminal = new FakeTerminal(archive);
  expect(await runOperatorCommand(target, ['import'], { terminal })).toMatchObject({
    exitCode: 0,
    stderr: '',
  });
  return rowsOf(await exportArchive(target));
}

async function exportArchive(database: Database): Promise<string> {
  const terminal = new FakeTerminal();
  await runOperatorCommand(database, ['export'], { terminal });
  return terminal.output;
}

/**
 * Returns the lines of an archive without the header, because the header contains the time of the export, and without the
 * audit events of imports.
 */
function rowsOf(archive: string): string[] {
  const [, ...lines] = archive.split('\n');
  return lines.filter((line) => !line.includes('"action":"import"'));
}

async function insertManyPayments(location: DatabaseLocation): Promise<void> {
  const database = await openDatabase(location, () => undefined);
  const states = ['PAID', 'ISSUED', 'INFLIGHT'] as const;
  for (let user = 0; user < USER_COUNT; user += 1) {
    await insertPaidQuotes(
      database,
      randomPubkey(),
      Array.from({ length: QUOTES_PER_USER }, (_, index) => ({
        paidAtMs: FIRST_PAID_AT_MS + index * 1_000,
        amountSat: 1 + index,
        state: states[index % states.length] ?? 'PAID',
      })),
    );
  }
  await sql`
    insert into quote_events (quote, at, kind, detail)
    select id, ${FIRST_PAID_AT_MS}, 'update_sent', '{}' from quotes`.execute(database.db);
  await database.close();
}

async function readQuoteLists(location: DatabaseLocation) {
  const database = await openDatabase(location, () => undefined);
  const users = await database.db.selectFrom('users').select('pubkey').orderBy('pubkey').execute();
  const lists = [];
  for (const { pubkey } of users) {
    const page = { sinceSeconds: null, limit: QUOTES_PER_USER + 1, offset: 0 };
    lists.push({ pubkey, ...(await listPaidQuotes(database.db, pubkey, page, Date.now())) });
  }
  await database.close();
  return lists;
}

function startCommand(command: string, env: Record<string, string>) {
  const child = spawn(process.execPath, [`--max-old-space-size=${MAX_HEAP_MB}`, PROGRAM, command], {
    env: { DEFAULT_MINT_URL: 'https://mint.example', ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}
