import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { sql } from 'kysely';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { sqliteFilePath } from '../../src/database/data-dir.ts';
import { type Database, openDatabase, openExistingDatabase } from '../../src/database/database.ts';
import { MAX_WAL_BYTES } from '../../src/database/limits.ts';
import { DatabaseUnavailableError } from '../../src/errors.ts';
import { FaultyDisk } from '../helpers/database/faulty-disk.ts';
import { isPostgres } from '../helpers/database/test-database.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { NutpostProcess } from '../helpers/service/nutpost-process.ts';

/** Starting a process takes a second, and much longer on a busy machine. */
const START_TIMEOUT_MS = 60_000;

/** Does not fit in one page. */
const LONG_TEXT = 'x'.repeat(20_000);

// nutpost relies on the durability of PostgreSQL without testing it.
describe.skipIf(isPostgres)('the SQLite database', () => {
  it('can be used by only one process of the service', async () => {
    const env = { DATA_DIR: createDataDir() };
    const processes = [new NutpostProcess('serve', env), new NutpostProcess('serve', env)];
    const [, rejectedExit] = await Promise.all([
      Promise.any(processes.map((process) => process.waitForUrl())),
      Promise.race(processes.map((process) => process.waitForExit())),
    ]);
    expect(rejectedExit).toEqual({
      code: 1,
      signal: null,
      stderr: expect.stringMatching(
        /^The data directory \S+ is in use by another nutpost process[^\n]+DATA_DIR\.\n$/,
      ),
    });
  });

  it('can be read while a commit waits for the disk', async () => {
    const mint = await startTestMint();
    const disk = new FaultyDisk({ syncDurationMs: 400 });
    // The migrations would take seconds with such a disk.
    await (await open(disk.dataDir)).close();
    const service = new NutpostProcess('serve', { ...disk.env, DEFAULT_MINT_URL: mint.url });
    const url = await service.waitForUrl();
    const wallet = new RecipientClient(url.replace('127.0.0.1', 'localhost'));
    let isCommitted = false;
    const invoice = requestJson(url, `/.well-known/lnurlp/${wallet.npub}?amount=21000`).then(() => {
      isCommitted = true;
    });
    await vi.waitFor(() => expect(mint.quotes.size).toBe(1), START_TIMEOUT_MS);
    const quotesPath = '/api/v2/wallet/quotes';
    const { status } = await requestJson(url, quotesPath, {
      headers: { authorization: wallet.signRequest(quotesPath) },
    });
    expect({ status, isCommitted }).toEqual({ status: 200, isCommitted: false });
    await invoice;
  });

  it('makes the service report a failure if its file is damaged', async () => {
    const dataDir = createDataDir();
    const service = new NutpostProcess('serve', { DATA_DIR: dataDir });
    const url = await service.waitForUrl();
    const otherProcess = new DatabaseSync(sqliteFilePath(dataDir), { timeout: START_TIMEOUT_MS });
    // After this write of another process, the service reads all pages again.
    otherProcess.exec(
      `insert into users (pubkey) values ('changed'); pragma wal_checkpoint(truncate)`,
    );
    otherProcess.close();
    const bytes = fs.readFileSync(sqliteFilePath(dataDir));
    // All pages but the first.
    fs.writeFileSync(sqliteFilePath(dataDir), bytes.fill(0xff, 4_096));

    const { body } = await requestJson(url, `/.well-known/lnurlp/${new RecipientClient(url).npub}`);
    expect(body).toEqual({
      status: 'ERROR',
      reason: 'The service is temporarily unavailable. Please try again.',
    });
    expect(await requestJson(url, '/health/ready')).toMatchObject({
      status: 503,
      body: { status: 'failing', checks: { database: 'failing' } },
    });
    expect(service.stdout).toContain('"event":"database_unavailable"');
  });

  it('truncates its WAL file after another process ends a long read', async () => {
    const dataDir = createDataDir();
    const database = await open(dataDir);
    const insertRelay = (url: string) =>
      database.db.insertInto('relays').values({ url, last_error: LONG_TEXT }).execute();
    const walBytes = () => fs.statSync(`${sqliteFilePath(dataDir)}-wal`).size;
    const reader = new DatabaseSync(sqliteFilePath(dataDir));
    reader.exec('begin');
    reader.prepare('select * from relays').all();
    for (let row = 0; walBytes() <= MAX_WAL_BYTES + 50 * LONG_TEXT.length; row += 1) {
      await insertRelay(`${row}`);
    }
    reader.close();
    // The first write runs a checkpoint, and the next one starts the file again.
    await insertRelay('first');
    await insertRelay('second');
    expect(walBytes()).toBeLessThanOrEqual(MAX_WAL_BYTES);
  });

  it('rejects writes of the service, but not reads, while another process has the write lock', async () => {
    const dataDir = createDataDir();
    const service = await open(dataDir);
    const command = await openExistingDatabase({ kind: 'sqlite', dataDir });
    onTestFinished(() => command.close());
    const write = ({ db }: Database, pubkey: string) =>
      db.insertInto('users').values({ pubkey }).execute();
    const otherProcess = new DatabaseSync(sqliteFilePath(dataDir));
    otherProcess.exec('begin immediate');

    const commandWrite = write(command, 'command');
    const firstWriteAtMs = performance.now();
    await expect(write(service, 'first')).rejects.toThrow(DatabaseUnavailableError);
    const firstWriteMs = performance.now() - firstWriteAtMs;
    expect(service.isWritable()).toBe(false);
    // After one write timed out, later writes fail immediately.
    const secondWriteAtMs = performance.now();
    await expect(write(service, 'second')).rejects.toThrow(DatabaseUnavailableError);
    expect(performance.now() - secondWriteAtMs).toBeLessThan(firstWriteMs / 2);
    expect(await service.db.selectFrom('users').selectAll().execute()).toEqual([]);

    // A database with a write that waits for 10 s counts as not writable, although the write has not failed yet.
    expect(command.isWritable()).toBe(true);
    const now = vi.spyOn(performance, 'now').mockReturnValue(secondWriteAtMs + 10_000);
    expect(command.isWritable()).toBe(false);
    now.mockRestore();

    otherProcess.close();
    // The write succeeds, because a command waits longer for the lock than the service.
    await commandWrite;
    await write(service, 'third');
    expect(service.isWritable()).toBe(true);
  });

  it('counts as not writable from an error of a full disk until a write succeeds', async () => {
    const database = await open(createDataDir());
    const { db } = database;
    const insertRelay = (url: string) =>
      db.insertInto('relays').values({ url, last_error: LONG_TEXT }).execute();
    await insertRelay('first');
    // The limit is below the current number of pages, so SQLite cannot add pages, as on a full disk.
    await sql`pragma max_page_count = 1`.execute(db);
    await expect(insertRelay('second')).rejects.toThrow(DatabaseUnavailableError);
    expect(database.isWritable()).toBe(false);
    // A transaction that changes no rows writes nothing.
    await db.transaction().execute((tx) => tx.deleteFrom('users').execute());
    expect(database.isWritable()).toBe(false);
    const rolledBack = db.transaction().execute(async (tx) => {
      await tx.updateTable('relays').set({ failures: 1 }).execute();
      throw new Error('rolled back');
    });
    await expect(rolledBack).rejects.toThrow('rolled back');
    await db.transaction().execute((tx) => tx.deleteFrom('users').execute());
    expect(database.isWritable()).toBe(false);
    await sql`pragma max_page_count = 10000`.execute(db);
    await db.insertInto('relays').values({ url: 'second' }).returning('url').execute();
    expect(database.isWritable()).toBe(true);
  });
});

async function open(dataDir: string): Promise<Database> {
  const database = await openDatabase({ kind: 'sqlite', dataDir }, () => undefined);
  onTestFinished(() => database.close());
  return database;
}

function createDataDir(): string {
  const folder = fs.mkdtempSync(path.join(tmpdir(), 'nutpost-durability-'));
  onTestFinished(() => fs.rmSync(folder, { recursive: true, force: true }));
  return path.join(folder, 'data');
}
