import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { type Database, type DatabaseLocation, openDatabase } from '../../src/database/database.ts';
import { Store } from '../../src/store.ts';
import { createDataDir } from '../helpers/database.ts';
import { insertFixtureRows } from '../helpers/database-fixture.ts';
import { runNutpostCommand } from '../helpers/nutpost-process.ts';
import { runOperatorCommand } from '../helpers/operator-command.ts';
import { createOperationsDatabase } from '../helpers/postgres-database.ts';
import { FIRST_PAID_AT_MS, insertPayments, randomPubkey } from '../helpers/quotes.ts';
import { TEST_JWT_SECRET } from '../helpers/test-environment.ts';
import { TestTerminal } from '../helpers/test-terminal.ts';

/** `nutpost export` and `nutpost import`: moves between SQLite and PostgreSQL. */

const USERS = 100;
const QUOTES_PER_USER = 200;
const MOVE_TIMEOUT_MS = 120_000;

/** JavaScript's own memory: little more than a process needs without the archive. */
const HEAP_MB = 112;

const PROGRAM = path.resolve(import.meta.dirname, '../../bin/nutpost.js');

let dataDir: string;
let remove: () => Promise<void>;

beforeAll(async () => {
  ({ dataDir, remove } = await createDataDir());
  await fill({ kind: 'sqlite', dataDir });
}, MOVE_TIMEOUT_MS);

afterAll(() => remove());

it(
  'moves 20,000 quotes through a pipe, and keeps every user’s list',
  async () => {
    const { url, drop } = await createOperationsDatabase();
    onTestFinished(drop);
    const env = { DATABASE_URL: url, JWT_SECRET: TEST_JWT_SECRET };
    expect(await runNutpostCommand(['migrate'], env)).toMatchObject({ code: 0 });

    const exporting = start('export', { DATA_DIR: dataDir });
    const importing = start('import', env);
    const [stderr] = await Promise.all([
      text(exporting.stderr),
      once(exporting, 'exit').then(([code]) => expect(code).toBe(0)),
      once(importing, 'exit').then(([code]) => expect(code).toBe(0)),
      pipeline(exporting.stdout, importing.stdin),
    ]);

    expect(stderr).toMatch(/ {2}users +100\n {2}quotes +20,000\n {2}quote_events +20,000\n/);
    const before = await listsOf({ kind: 'sqlite', dataDir });
    expect(before.map(({ total }) => total)).toEqual(Array(USERS).fill(QUOTES_PER_USER));
    expect(await listsOf({ kind: 'postgres', url })).toEqual(before);
  },
  MOVE_TIMEOUT_MS,
);

it('moves every stored value from SQLite to PostgreSQL and back', async () => {
  const { url, drop } = await createOperationsDatabase();
  onTestFinished(drop);
  const [first, server, back] = [
    await openNewFile(),
    await open({ kind: 'postgres', url }),
    await openNewFile(),
  ];
  await insertFixtureRows(first);
  const archive = await exportOf(first);
  expect(await moved(archive, server)).toEqual(rowsOf(archive));
  expect(await moved(archive, back)).toEqual(rowsOf(archive));
  // Neither database assigns an id twice.
  for (const { db } of [server, back]) {
    const { quote_id: copied, ...quote } = await db
      .selectFrom('quotes')
      .select(['mint_url', 'quote_id', 'pubkey', 'request', 'amount_sat', 'state', 'locked'])
      .select(['created_at', 'expires_at'])
      .where('state', '=', 'UNPAID')
      .executeTakeFirstOrThrow();
    const { id } = await db
      .insertInto('quotes')
      .values({ ...quote, quote_id: `after ${copied}` })
      .returning('id')
      .executeTakeFirstOrThrow();
    expect(id).toBe(901);
  }
});

it('exports a snapshot of SQLite without blocking the service', async () => {
  const { db } = await open({ kind: 'sqlite', dataDir });
  const exporting = start('export', { DATA_DIR: dataDir });
  // The export pauses when the pipe is full.
  const [first] = await once(exporting.stdout, 'data');
  exporting.stdout.pause();
  const { numUpdatedRows } = await db
    .updateTable('quotes')
    .set({ comment: 'new' })
    .executeTakeFirst();
  expect(numUpdatedRows).toBe(BigInt(USERS * QUOTES_PER_USER));
  expect(exporting.exitCode).toBeNull();
  const archive = first + (await text(exporting.stdout));
  expect(archive.match(/"comment":null/g)).toHaveLength(USERS * QUOTES_PER_USER);
});

async function open(location: DatabaseLocation): Promise<Database> {
  const database = await openDatabase(location, () => undefined);
  onTestFinished(() => database.close());
  return database;
}

async function openNewFile(): Promise<Database> {
  const folder = await createDataDir();
  onTestFinished(folder.remove);
  return open({ kind: 'sqlite', dataDir: folder.dataDir });
}

/** Imports an archive, and exports it again. */
async function moved(archive: string, to: Database): Promise<string[]> {
  const terminal = new TestTerminal(archive);
  expect(await runOperatorCommand(to, ['import'], { terminal })).toMatchObject({
    exitCode: 0,
    stderr: '',
  });
  return rowsOf(await exportOf(to));
}

async function exportOf(database: Database): Promise<string> {
  const terminal = new TestTerminal();
  await runOperatorCommand(database, ['export'], { terminal });
  return terminal.output;
}

/** All lines but the header, which contains the time. */
function rowsOf(archive: string): string[] {
  return archive.split('\n').slice(1);
}

/** Payments as wallets see them, with a line of history each. */
async function fill(location: DatabaseLocation): Promise<void> {
  const database = await openDatabase(location, () => undefined);
  const states = ['PAID', 'ISSUED', 'INFLIGHT'] as const;
  for (let user = 0; user < USERS; user += 1) {
    await insertPayments(
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

/** The quote list of each user, in the order of the users' keys. */
async function listsOf(location: DatabaseLocation) {
  const database = await openDatabase(location, () => undefined);
  const { quotes } = new Store(database.db);
  const users = await database.db.selectFrom('users').select('pubkey').orderBy('pubkey').execute();
  const lists = [];
  for (const { pubkey } of users) {
    const page = { sinceSeconds: null, limit: QUOTES_PER_USER + 1, offset: 0 };
    lists.push({ pubkey, ...(await quotes.listPaid(pubkey, page)) });
  }
  await database.close();
  return lists;
}

function start(command: string, env: Record<string, string>) {
  const child = spawn(process.execPath, [`--max-old-space-size=${HEAP_MB}`, PROGRAM, command], {
    env: { DEFAULT_MINT_URL: 'https://mint.example', ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}
