import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { sql } from 'kysely';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { sqliteFilePath } from '../../src/database/data-dir.ts';
import {
  type Database,
  openDatabase,
  openExistingDatabase,
  SERVICE_BUSY_TIMEOUT_MS,
} from '../../src/database/database.ts';
import { DatabaseUnavailableError } from '../../src/errors.ts';
import { isPostgres } from '../helpers/database.ts';
import { FaultyDisk } from '../helpers/faulty-disk.ts';
import { NutpostProcess, runNutpostCommand } from '../helpers/nutpost-process.ts';
import { startMint } from '../helpers/start-test-mint.ts';
import { requestJson, TestWallet } from '../helpers/test-wallet.ts';

/** A start takes a second, and many times that on a busy machine. */
const START_MS = 60_000;

/** A commit takes so long that a process can be killed during it. */
const SLOW_SYNC_MS = 100;

/** Bytes in a page of SQLite. */
const PAGE_BYTES = 4_096;

/** Long enough to need pages of its own. */
const LONG = 'x'.repeat(20_000);

// PostgreSQL's durability is not ours to test.
describe.skipIf(isPostgres)('a data directory', () => {
  it('keeps every returned invoice when the service is killed and started again', async () => {
    const mint = await startMint();
    const env = { DATA_DIR: newDataDir(), DEFAULT_MINT_URL: mint.url };
    const killed = new NutpostProcess('serve', env);
    const invoices = await askUntilKilled(killed, 40);

    const [next, refused] = await oneOf(
      new NutpostProcess('serve', env),
      new NutpostProcess('serve', env),
    );
    expect(refused).toEqual({
      code: 1,
      signal: null,
      stderr: expect.stringMatching(
        /^The data directory \S+ is in use by another nutpost process[^\n]+DATA_DIR\.\n$/,
      ),
    });
    const verify = async (invoice: Invoice) =>
      (await requestJson(next, new URL(invoice.verify).pathname)).body;
    for (const invoice of invoices) {
      expect(await verify(invoice)).toMatchObject({ settled: false, pr: invoice.pr });
    }
    for (const invoice of invoices.slice(-3)) {
      mint.pay(invoice.pr);
      await vi.waitFor(async () => expect((await verify(invoice)).settled).toBe(true), {
        timeout: START_MS,
      });
    }
  });

  it('survives first starts that are killed', async () => {
    const disk = new FaultyDisk({ syncMs: SLOW_SYNC_MS });
    for (const syncs of [1, 3, 5, 7]) {
      const starting = new NutpostProcess('serve', disk.env);
      for (let sync = 1; sync <= syncs; sync += 1) {
        await nextWrite(disk);
      }
      await starting.kill();
    }
    const service = new NutpostProcess('serve', { DATA_DIR: disk.dataDir });
    const url = await service.waitUntilListening();
    expect((await requestJson(url, '/api/v2/info')).status).toBe(200);
    expect(await service.stop()).toEqual({ code: 0, signal: null, stderr: '' });
  });

  it('survives a command that is killed during its commit', async () => {
    const mint = await startMint();
    const disk = new FaultyDisk({ syncMs: SLOW_SYNC_MS });
    const env = { DATA_DIR: disk.dataDir, DEFAULT_MINT_URL: mint.url };
    const url = await new NutpostProcess('serve', env).waitUntilListening();
    const npubs = Array.from({ length: 4 }, () => new TestWallet(url).npub);
    const [first = '', ...others] = npubs;
    const payRequest = async (npub: string) =>
      (await requestJson(url, `/.well-known/lnurlp/${npub}?amount=21000`)).body;

    const blocked = await runNutpostCommand(['user', 'block', first], env);
    expect(blocked).toMatchObject({ code: 0, stderr: '' });
    await vi.waitFor(async () => {
      expect(await payRequest(first)).toMatchObject({ reason: 'Recipient unavailable.' });
    }, START_MS);
    for (const npub of others) {
      const command = new NutpostProcess(`user block ${npub}`, { ...env, ...disk.env });
      await nextWrite(disk);
      await command.kill();
      expect(await payRequest(new TestWallet(url).npub)).toHaveProperty('pr');
    }
    expect(await runNutpostCommand(['user', 'unblock', first], env)).toMatchObject({ code: 0 });
    await vi.waitFor(async () => expect(await payRequest(first)).toHaveProperty('pr'), START_MS);
  });

  it('serves reads while another process writes, and writes afterwards', async () => {
    const mint = await startMint();
    const dataDir = newDataDir();
    const service = new NutpostProcess('serve', { DATA_DIR: dataDir, DEFAULT_MINT_URL: mint.url });
    const url = await service.waitUntilListening();
    // Without PUBLIC_ORIGINS, signatures are for this host.
    const wallet = new TestWallet(url.replace('127.0.0.1', 'localhost'));
    const address = `/.well-known/lnurlp/${wallet.npub}`;
    const list = '/api/v2/wallet/quotes';
    const askInvoice = () => requestJson(url, `${address}?amount=21000`);
    await askInvoice();

    const other = new DatabaseSync(sqliteFilePath(dataDir), { timeout: START_MS });
    other.exec('begin immediate');
    const waiting = askInvoice();
    await vi.waitFor(() => expect(mint.quotes.size).toBe(2), START_MS);
    for (let round = 0; round < 10; round += 1) {
      const headers = { authorization: wallet.signRequest(list) };
      expect((await requestJson(url, list, { headers })).status).toBe(200);
      expect(
        (await requestJson(url, `/.well-known/lnurlp/${new TestWallet(url).npub}`)).body,
      ).toHaveProperty('callback');
    }
    expect((await requestJson(url, '/health/ready')).status).toBe(200);
    other.close();
    expect((await waiting).body).toHaveProperty('pr');
  });

  it('serves reads while a commit waits for the disk', async () => {
    const mint = await startMint();
    const disk = new FaultyDisk({ syncMs: 200 });
    const service = new NutpostProcess('serve', { ...disk.env, DEFAULT_MINT_URL: mint.url });
    const url = await service.waitUntilListening();
    const wallet = new TestWallet(url.replace('127.0.0.1', 'localhost'));
    let isCommitted = false;
    const invoice = requestJson(url, `/.well-known/lnurlp/${wallet.npub}?amount=21000`).then(() => {
      isCommitted = true;
    });
    await vi.waitFor(() => expect(mint.quotes.size).toBe(1), START_MS);
    const list = '/api/v2/wallet/quotes';
    const { status } = await requestJson(url, list, {
      headers: { authorization: wallet.signRequest(list) },
    });
    expect({ status, isCommitted }).toEqual({ status: 200, isCommitted: false });
    await invoice;
  });

  it('is reported as failing while it is damaged', async () => {
    const dataDir = newDataDir();
    const service = new NutpostProcess('serve', { DATA_DIR: dataDir });
    const url = await service.waitUntilListening();
    const other = new DatabaseSync(sqliteFilePath(dataDir), { timeout: START_MS });
    // The service reads all pages again after another process has written.
    other.exec(`insert into users (pubkey) values ('changed'); pragma wal_checkpoint(truncate)`);
    other.close();
    const bytes = fs.statSync(sqliteFilePath(dataDir)).size;
    const file = fs.openSync(sqliteFilePath(dataDir), 'r+');
    fs.writeSync(file, Buffer.alloc(bytes - PAGE_BYTES, 0xff), 0, bytes - PAGE_BYTES, PAGE_BYTES);
    fs.closeSync(file);

    const { body } = await requestJson(url, `/.well-known/lnurlp/${new TestWallet(url).npub}`);
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

  it('has a small WAL file again after a long read of another process', async () => {
    const dataDir = newDataDir();
    const database = await openDatabase({ kind: 'sqlite', dataDir }, () => undefined);
    onTestFinished(() => database.close());
    const reader = new DatabaseSync(sqliteFilePath(dataDir));
    reader.exec('begin');
    reader.prepare('select * from relays').all();
    for (let row = 0; row < 100; row += 1) {
      await database.db
        .insertInto('relays')
        .values({ url: `${row}`, last_result: LONG })
        .execute();
    }
    const walBytes = () => fs.statSync(`${sqliteFilePath(dataDir)}-wal`).size;
    const before = walBytes();
    const startedAtMs = performance.now();
    await database.checkpoint();
    // The checkpoint does not wait for the reader.
    expect(performance.now() - startedAtMs).toBeLessThan(SERVICE_BUSY_TIMEOUT_MS / 2);
    expect(walBytes()).toBe(before);
    reader.close();
    await database.checkpoint();
    expect(walBytes()).toBe(0);
  });

  it('rejects writes and serves reads while another process locks it for a long time', async () => {
    const dataDir = newDataDir();
    const location = { kind: 'sqlite', dataDir } as const;
    const service = await openDatabase(location, () => undefined);
    onTestFinished(() => service.close());
    const command = await openExistingDatabase(location, () => undefined);
    onTestFinished(() => command.close());
    const write = ({ db }: Database, pubkey: string) =>
      db.insertInto('users').values({ pubkey }).execute();
    const other = new DatabaseSync(sqliteFilePath(dataDir));
    other.exec('begin immediate');

    const ofCommand = write(command, 'command');
    await expect(write(service, 'first')).rejects.toThrow(DatabaseUnavailableError);
    expect(service.isWritable()).toBe(false);
    // Later writes fail immediately, because they would only queue behind this one.
    const triedAtMs = performance.now();
    await expect(write(service, 'second')).rejects.toThrow(DatabaseUnavailableError);
    expect(performance.now() - triedAtMs).toBeLessThan(SERVICE_BUSY_TIMEOUT_MS / 2);
    expect(await service.db.selectFrom('users').selectAll().execute()).toEqual([]);

    // A write that waits for a long time, as on a disk that does not respond, is reported before it fails.
    expect(command.isWritable()).toBe(true);
    const now = vi.spyOn(performance, 'now').mockReturnValue(triedAtMs + 10_000);
    expect(command.isWritable()).toBe(false);
    now.mockRestore();

    other.close();
    // A command waits longer than the service.
    await ofCommand;
    await write(service, 'third');
    expect(service.isWritable()).toBe(true);
  });

  it('is not writable after a full disk until something is written', async () => {
    const database = await openDatabase({ kind: 'sqlite', dataDir: newDataDir() }, () => undefined);
    onTestFinished(() => database.close());
    const { db } = database;
    const add = (url: string) =>
      db.insertInto('relays').values({ url, last_result: LONG }).execute();
    await add('first');
    // Fewer pages than there are: no more can be added.
    await sql`pragma max_page_count = 1`.execute(db);
    await expect(add('second')).rejects.toThrow(DatabaseUnavailableError);
    expect(database.isWritable()).toBe(false);
    await db.transaction().execute((tx) => tx.deleteFrom('users').execute());
    expect(database.isWritable()).toBe(false);
    const undone = db.transaction().execute(async (tx) => {
      await tx.updateTable('relays').set({ failures: 1 }).execute();
      throw new Error('undone');
    });
    await expect(undone).rejects.toThrow('undone');
    await db.transaction().execute((tx) => tx.deleteFrom('users').execute());
    expect(database.isWritable()).toBe(false);
    await sql`pragma max_page_count = 10000`.execute(db);
    await db.insertInto('relays').values({ url: 'second' }).returning('url').execute();
    expect(database.isWritable()).toBe(true);
  });

  it('is not writable while it is read-only', async () => {
    const database = await openDatabase({ kind: 'sqlite', dataDir: newDataDir() }, () => undefined);
    onTestFinished(() => database.close());
    const add = (pubkey: string) => database.db.insertInto('users').values({ pubkey }).execute();
    await add('first');
    // A mistake in a statement says nothing about the database.
    await expect(sql`select missing`.execute(database.db)).rejects.toThrow('no such column');
    await expect(add('first')).rejects.toThrow('UNIQUE constraint failed');
    expect(database.isWritable()).toBe(true);
    await sql`pragma query_only = on`.execute(database.db);
    await expect(add('second')).rejects.toThrow(DatabaseUnavailableError);
    expect(database.isWritable()).toBe(false);
  });

  it('is rejected if the database was replaced by another file', async () => {
    const dataDir = newDataDir();
    fs.mkdirSync(dataDir);
    fs.writeFileSync(sqliteFilePath(dataDir), 'something else'.repeat(100));
    await expect(openDatabase({ kind: 'sqlite', dataDir }, () => undefined)).rejects.toThrow(
      /^DATA_DIR: \S+ cannot be used \(file is not a database\)\.$/,
    );
  });
});

interface Invoice {
  pr: string;
  verify: string;
}

/** Requests invoices concurrently, and kills the service between two responses. */
async function askUntilKilled(service: NutpostProcess, count: number): Promise<Invoice[]> {
  const url = await service.waitUntilListening();
  const wallet = new TestWallet(url);
  const invoices: Invoice[] = [];
  const keepAsking = async (): Promise<void> => {
    while (invoices.length < count) {
      const { body } = await requestJson(url, `/.well-known/lnurlp/${wallet.npub}?amount=21000`);
      invoices.push(body);
    }
    await service.kill();
  };
  // A request that the kill cut off has no invoice.
  await Promise.all(Array.from({ length: 4 }, () => keepAsking().catch(() => undefined)));
  expect(invoices.length).toBeGreaterThanOrEqual(count);
  return invoices;
}

/** Starts two processes on one directory. @returns the address of the one that runs, and the exit of the other */
function oneOf(...processes: [NutpostProcess, NutpostProcess]) {
  return Promise.all([
    Promise.any(processes.map((each) => each.waitUntilListening())),
    Promise.race(processes.map((each) => each.waitForExit())),
  ]);
}

/** Waits until something is written that is not synced yet. */
async function nextWrite(disk: FaultyDisk): Promise<void> {
  const before = disk.journalPosition();
  await vi.waitFor(() => expect(disk.journalPosition()).toBeGreaterThan(before), {
    timeout: START_MS,
    interval: 5,
  });
}

function newDataDir(): string {
  const folder = fs.mkdtempSync(path.join(tmpdir(), 'nutpost-durability-'));
  onTestFinished(() => fs.rmSync(folder, { recursive: true, force: true }));
  return path.join(folder, 'data');
}
