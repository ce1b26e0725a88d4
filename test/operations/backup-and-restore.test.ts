import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import { afterAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { isAccessibleToOtherUsers, sqliteFilePath } from '../../src/database/data-dir.ts';
import { type DatabaseLocation, openDatabase } from '../../src/database/database.ts';
import { findNewestBackup } from '../../src/database/newest-backup-store.ts';
import { insertRowsInEveryTable } from '../helpers/database/rows-of-every-table.ts';
import { createOperationsDatabase } from '../helpers/database/temporary-postgres-database.ts';
import { createDataDir } from '../helpers/database/test-database.ts';
import { eventually } from '../helpers/eventually.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import {
  type CommandExit,
  NutpostProcess,
  runNutpostCommand,
} from '../helpers/service/nutpost-process.ts';

const SECRETS = {
  JWT_SECRET: 'j'.repeat(32),
  TREASURY_SECRET: 't'.repeat(32),
  NOTIFY_SECRET_KEY: '1'.repeat(64),
};

type Environment = Record<string, string>;

const KINDS = [
  ['SQLite', 'sqlite', createSqlite],
  ['PostgreSQL with pg_dump', 'dump', createPostgres],
  ['PostgreSQL without pg_dump', 'archive', createPostgresWithoutDump],
] as const;

const cleanup = new AsyncDisposableStack();
let directory: string;

afterAll(() => cleanup.disposeAsync());

beforeEach(async () => {
  const { dataDir, remove } = await createDataDir();
  onTestFinished(remove);
  directory = path.join(dataDir, 'backups');
  fs.mkdirSync(directory);
});

describe.each(KINDS)('on %s', (_name, format, create) => {
  /** The first test makes a backup that the others use, too. */
  let prepared: Promise<{ env: Environment; backup: CommandExit; file: string }> | null = null;
  const prepare = () => {
    prepared ??= prepareBackup(create);
    return prepared;
  };

  it('writes a backup of everything, and restores it into an empty place', async () => {
    const { env, backup, file } = await prepare();
    expect(backup).toMatchObject({ code: 0, stderr: '' });
    const content = { format, rows: { users: 2 }, newestPayment: { amountSat: 21 } };
    expect(JSON.parse(backup.stdout)).toMatchObject(content);
    expect(fs.statSync(file).mode & 0o777).toBe(0o600);

    fs.chmodSync(file, 0o644);
    const restoredEnv = await create();
    expect(await runNutpostCommand(['restore', file], restoredEnv)).toMatchObject({ code: 0 });
    const { DATA_DIR: dataDir } = restoredEnv;
    expect(dataDir !== undefined && isAccessibleToOtherUsers(dataDir)).toBe(false);
    const restored = await runNutpostCommand(['export'], restoredEnv);
    expect(restored.code).toBe(0);
    const original = await runNutpostCommand(['export'], env);
    expect(listRows(restored.stdout)).toEqual(listRows(original.stdout));
    expect(restored.stdout).toContain('"action":"restore"');
  });

  it('restores neither over other data nor without the secrets', async () => {
    const { env, file } = await prepare();
    expect(await runNutpostCommand(['restore', file], env)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/exists already|not empty/),
    });
    const otherEnv = { ...(await create()), TREASURY_SECRET: 'o'.repeat(32) };
    expect(await runNutpostCommand(['restore', file], otherEnv)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('made with another TREASURY_SECRET'),
    });
    const otherKeyEnv = { ...otherEnv, ...SECRETS, NOTIFY_SECRET_KEY: '2'.repeat(64) };
    expect(await runNutpostCommand(['restore', file], otherKeyEnv)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('made with another NOTIFY_SECRET_KEY'),
    });
    const forced = await runNutpostCommand(['restore', file, '--other-secrets'], otherEnv);
    expect(forced).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('TREASURY_SECRET is not that of the backup'),
    });
  });

  it('restores nothing of a damaged backup', async () => {
    const { file } = await prepare();
    const damaged = path.join(directory, 'damaged');
    fs.copyFileSync(file, damaged);
    fs.truncateSync(damaged, Math.floor(fs.statSync(damaged).size * 0.7));
    expect(await runNutpostCommand(['restore', damaged], await create())).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('is damaged'),
    });
  });
});

it('writes an archive if the dump of a newer pg_dump might not fit the server', async () => {
  const env = { ...(await createPostgres()), PATH: directory };
  await fill(env);
  const program = path.join(directory, 'pg_dump');
  fs.writeFileSync(program, '#!/bin/sh\necho "pg_dump (PostgreSQL) 99.1"\n', { mode: 0o755 });
  const { stdout } = await runNutpostCommand(['backup', directory, '--json'], env);
  expect(JSON.parse(stdout)).toMatchObject({ format: 'archive' });
});

it('names the version that wrote an archive with other tables, and restores nothing', async () => {
  const file = path.join(directory, 'old.ndjson');
  const header = { archive: 'nutpost', nutpost: '0.1.0', made_at: '2026-11-30T11:00:00.000Z' };
  fs.writeFileSync(file, `${JSON.stringify({ ...header, rows: { users: 0, quotes: 0 } })}\n`);
  const env = await createSqlite();
  expect(await runNutpostCommand(['restore', file], env)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(
      'nutpost 0.1.0 wrote this archive: import it with that version',
    ),
  });
  expect(fs.existsSync(sqliteFilePath(`${env['DATA_DIR']}`))).toBe(false);
});

it('restores a backup whose secrets are unknown, and says so', async () => {
  const env = await createSqlite();
  await fill(env);
  const file = path.join(directory, 'one');
  expect(await runNutpostCommand(['backup', file], env)).toMatchObject({ code: 0 });
  fs.rmSync(`${file}.json`);
  expect(await runNutpostCommand(['restore', file], await createSqlite())).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(`Secrets were not compared: ${file}.json is missing`),
  });
});

it('still notices the payment of an invoice that was created before the backup', async () => {
  const mint = await TestMint.start();
  onTestFinished(() => mint.close());
  const env = { ...(await createSqlite()), DEFAULT_MINT_URL: mint.url };
  const service = new NutpostProcess('serve', env);
  const wallet = new RecipientClient(await service.waitForUrl());
  const invoicePath = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
  const { body: invoice } = await requestJson(wallet.origin, invoicePath);
  const file = path.join(directory, 'one');
  expect(await runNutpostCommand(['backup', file], env)).toMatchObject({ code: 0 });
  await service.stop();

  const restoredEnv = { ...env, ...(await createSqlite()) };
  expect(await runNutpostCommand(['restore', file], restoredEnv)).toMatchObject({ code: 0 });
  const url = await new NutpostProcess('serve', restoredEnv).waitForUrl();
  mint.pay(invoice.pr);
  const restored = wallet.withOrigin(url.replace('127.0.0.1', 'localhost'));
  await eventually(async () => {
    expect(await restored.listPaidQuotes()).toMatchObject([{ amount: 21 }]);
  });
});

it('keeps the newest backups of a directory, and records when the last one was made', async () => {
  const env = await createSqlite();
  await fill(env);
  const kept = ['nutpost-20260102T000000Z.sqlite', 'nutpost-20260102T120000Z.sqlite.unfinished'];
  const old = ['nutpost-20260101T000000Z.sqlite', 'nutpost-20260101T000000Z.sqlite.json'];
  const unfinished = 'nutpost-20260101T120000Z.sqlite.unfinished';
  const interrupted = [unfinished, `${unfinished}-journal`];
  for (const name of [...kept, ...old, ...interrupted, 'mine.sqlite']) {
    fs.writeFileSync(path.join(directory, name), '');
  }
  const startedAtMs = Date.now();
  const { stdout } = await runNutpostCommand(['backup', directory, '--keep', '2'], env);
  expect(stdout).toContain('Deleted nutpost-20260101T000000Z.sqlite.');
  expect(fs.readdirSync(directory)).toEqual([
    'mine.sqlite',
    ...kept,
    expect.stringMatching(/^nutpost-20\d{6}T\d{6}Z\.sqlite$/),
    expect.stringMatching(/^nutpost-20\d{6}T\d{6}Z\.sqlite\.json$/),
  ]);
  const database = await openDatabase(toLocation(env), () => undefined);
  onTestFinished(() => database.close());
  expect(await findNewestBackup(database.db)).toBeGreaterThanOrEqual(startedAtMs);
});

it('keeps what it has just written if the clock was set back', async () => {
  const env = await createSqlite();
  await fill(env);
  fs.writeFileSync(path.join(directory, 'nutpost-29990101T000000Z.sqlite'), '');
  const { stdout } = await runNutpostCommand(['backup', directory, '--keep', '1', '--json'], env);
  const { file } = JSON.parse(stdout);
  expect(fs.readdirSync(directory)).toEqual([path.basename(file), `${path.basename(file)}.json`]);
});

it('deletes and writes nothing if it cannot copy the database', async () => {
  const env = await createSqlite();
  await fill(env);
  damageTable(sqliteFilePath(env['DATA_DIR'] ?? ''), 'zap_receipts');
  const old = 'nutpost-20260101T000000Z.sqlite';
  fs.writeFileSync(path.join(directory, old), '');
  const result = await runNutpostCommand(['backup', directory, '--keep', '1'], env);
  expect(result).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(/^.* cannot be written: .+\n$/),
  });
  expect(fs.readdirSync(directory)).toEqual([old]);
});

/** Of SQLite. */
const PAGE_BYTES = 4096;

/** 40 MB in total. The file is so large that the writer commits many times during a copy. */
const ROW_COUNT = 4_000;

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

it('copies the complete SQLite database while another process writes all the time', async () => {
  const env = await createSqlite();
  await (await openDatabase(toLocation(env), () => undefined)).close();
  const source = sqliteFilePath(env['DATA_DIR'] ?? '');
  insertRelays(source);
  const writer = new Worker(WRITER_PROGRAM, { eval: true, workerData: source });
  onTestFinished(async () => void (await writer.terminate()));
  await once(writer, 'message');
  const { stdout } = await runNutpostCommand(['backup', directory, '--json'], env);
  const { file, rows } = JSON.parse(stdout);
  expect(rows).toMatchObject({ relays: ROW_COUNT });
  using copy = new DatabaseSync(file, { readOnly: true });
  expect(copy.prepare('select count(*) as count from users').get()).toEqual({ count: rows.users });
});

it('says why it cannot write a file', async () => {
  const env = await createSqlite();
  await fill(env);
  const file = path.join(directory, 'missing', 'one');
  expect(await runNutpostCommand(['backup', file], env)).toMatchObject({
    code: 1,
    stderr: `${file} cannot be written: unable to open database: ${file}.unfinished.\n`,
  });
});

it('leaves no file if it cannot write the one with the fingerprints', async () => {
  const env = await createSqlite();
  await fill(env);
  const file = path.join(directory, 'one');
  // As with a full disk, the file appears in the directory, but has no content.
  fs.symlinkSync(path.join(directory, 'missing', 'one.json'), `${file}.json`);
  expect(await runNutpostCommand(['backup', file], env)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(`${file} cannot be written: ENOENT`),
  });
  expect(fs.readdirSync(directory)).toEqual([]);
});

it('says why it cannot restore a file', async () => {
  const env = await createSqlite();
  await fill(env);
  const file = path.join(directory, 'one');
  expect(await runNutpostCommand(['backup', file], env)).toMatchObject({ code: 0 });
  const result = await runNutpostCommand(['restore', file], { ...env, DATA_DIR: `${file}/x` });
  expect(result).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^DATA_DIR cannot be written: ENOTDIR: .+\.\n$/),
  });
});

async function prepareBackup(create: () => Promise<Environment>) {
  const env = await create();
  await fill(env);
  const { dataDir, remove } = await createDataDir();
  cleanup.defer(remove);
  const backup = await runNutpostCommand(['backup', dataDir, '--json'], env);
  return { env, backup, file: JSON.parse(backup.stdout).file };
}

async function createSqlite(): Promise<Environment> {
  const { dataDir, remove } = await createDataDir();
  cleanup.defer(remove);
  return { DATA_DIR: dataDir, ...SECRETS };
}

async function createPostgres(): Promise<Environment> {
  const { url, drop } = await createOperationsDatabase();
  cleanup.defer(drop);
  const address = new URL(url);
  // Programs of PostgreSQL reject this parameter, which Node's driver has.
  address.searchParams.set('query_timeout', '60000');
  return { DATABASE_URL: address.href, ...SECRETS };
}

async function createPostgresWithoutDump(): Promise<Environment> {
  return { ...(await createPostgres()), PATH: '/nonexistent' };
}

function toLocation({ DATABASE_URL: url, DATA_DIR: dataDir = '' }: Environment): DatabaseLocation {
  return url === undefined ? { kind: 'sqlite', dataDir } : { kind: 'postgres', url };
}

function damageTable(file: string, table: string): void {
  using database = new DatabaseSync(file);
  const query = database.prepare('select rootpage from sqlite_schema where name = ?');
  const offset = (Number(query.get(table)?.['rootpage']) - 1) * PAGE_BYTES;
  const descriptor = fs.openSync(file, 'r+');
  fs.writeSync(descriptor, 'x'.repeat(PAGE_BYTES), offset);
  fs.closeSync(descriptor);
}

function insertRelays(file: string): void {
  using database = new DatabaseSync(file);
  const insert = database.prepare('insert into relays (url, last_error) values (?, ?)');
  database.exec('begin');
  for (let row = 0; row < ROW_COUNT; row += 1) {
    insert.run(`wss://${row}.example`, 'x'.repeat(10_000));
  }
  database.exec('commit');
}

async function fill(env: Environment): Promise<void> {
  const database = await openDatabase(toLocation(env), () => undefined);
  await insertRowsInEveryTable(database);
  await database.close();
}

/** Without those that a restore adds. */
function listRows(archive: string): string[] {
  const [, ...rows] = archive.split('\n');
  return rows.filter((row) => !/"action":"(?:restore|import)"/.test(row));
}
