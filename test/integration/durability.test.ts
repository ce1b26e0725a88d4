import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { sql } from 'kysely';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { sqliteFile } from '../../src/database/data-dir.ts';
import {
  type Database,
  openDatabase,
  openExistingDatabase,
  SERVICE_BUSY_TIMEOUT_MS,
} from '../../src/database/database.ts';
import { DatabaseUnavailable } from '../../src/errors.ts';
import { hasServer } from '../helpers/database.ts';
import { FaultyDisk } from '../helpers/faulty-disk.ts';
import { startMint } from '../helpers/mints.ts';
import { NutpostProcess, runNutpost } from '../helpers/nutpost-process.ts';
import { request, TestWallet } from '../helpers/wallet.ts';

/** A start takes a second, and many times that on a busy machine. */
const START_MS = 60_000;

/** A commit takes so long that a process can be killed during it. */
const SLOW_SYNC_MS = 100;

/** Of SQLite. */
const PAGE_BYTES = 4_096;

/** Needs pages of its own. */
const LONG = 'x'.repeat(20_000);

// A server's durability is its own; with one, this would only take time again.
describe.skipIf(hasServer)('a data directory', () => {
  it('passes from a killed service to the next one, with every invoice that was given out', async () => {
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
      (await request(next, new URL(invoice.verify).pathname)).body;
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

  it('is not spoilt by first starts that are killed on their way', async () => {
    const disk = new FaultyDisk({ syncMs: SLOW_SYNC_MS });
    for (const syncs of [1, 3, 5, 7]) {
      const starting = new NutpostProcess('serve', disk.env);
      for (let sync = 1; sync <= syncs; sync += 1) {
        await nextWrite(disk);
      }
      await starting.kill();
    }
    const service = new NutpostProcess('serve', { DATA_DIR: disk.dataDir });
    const url = await service.listening();
    expect((await request(url, '/api/v2/info')).status).toBe(200);
    expect(await service.stop()).toEqual({ code: 0, signal: null, stderr: '' });
  });

  it('is not spoilt by a command that is killed while it commits', async () => {
    const mint = await startMint();
    const disk = new FaultyDisk({ syncMs: SLOW_SYNC_MS });
    const env = { DATA_DIR: disk.dataDir, DEFAULT_MINT_URL: mint.url };
    const url = await new NutpostProcess('serve', env).listening();
    const npubs = Array.from({ length: 4 }, () => new TestWallet(url).npub);
    const [first = '', ...others] = npubs;
    const payRequest = async (npub: string) =>
      (await request(url, `/.well-known/lnurlp/${npub}?amount=21000`)).body;

    const blocked = await runNutpost(['user', 'block', first], env);
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
    expect(await runNutpost(['user', 'unblock', first], env)).toMatchObject({ code: 0 });
    await vi.waitFor(async () => expect(await payRequest(first)).toHaveProperty('pr'), START_MS);
  });

  it('serves reads while another process writes, and writes afterwards', async () => {
    const mint = await startMint();
    const dataDir = newDataDir();
    const service = new NutpostProcess('serve', { DATA_DIR: dataDir, DEFAULT_MINT_URL: mint.url });
    const url = await service.listening();
    // Without PUBLIC_ORIGINS, signatures are for this host.
    const wallet = new TestWallet(url.replace('127.0.0.1', 'localhost'));
    const address = `/.well-known/lnurlp/${wallet.npub}`;
    const list = '/api/v2/wallet/quotes';
    const askInvoice = () => request(url, `${address}?amount=21000`);
    await askInvoice();

    const other = new DatabaseSync(sqliteFile(dataDir), { timeout: START_MS });
    other.exec('begin immediate');
    const waiting = askInvoice();
    await vi.waitFor(() => expect(mint.quotes.size).toBe(2), START_MS);
    for (let round = 0; round < 10; round += 1) {
      const headers = { authorization: wallet.sign(list) };
      expect((await request(url, list, { headers })).status).toBe(200);
      expect(
        (await request(url, `/.well-known/lnurlp/${new TestWallet(url).npub}`)).body,
      ).toHaveProperty('callback');
    }
    expect((await request(url, '/health/ready')).status).toBe(200);
    other.close();
    expect((await waiting).body).toHaveProperty('pr');
  });

  it('serves reads while a commit waits for the disk', async () => {
    const mint = await startMint();
    const disk = new FaultyDisk({ syncMs: 200 });
    const service = new NutpostProcess('serve', { ...disk.env, DEFAULT_MINT_URL: mint.url });
    const url = await service.listening();
    const wallet = new TestWallet(url.replace('127.0.0.1', 'localhost'));
    let isCommitted = false;
    const invoice = request(url, `/.well-known/lnurlp/${wallet.npub}?amount=21000`).then(() => {
      isCommitted = true;
    });
    await vi.waitFor(() => expect(mint.quotes.size).toBe(1), START_MS);
    const list = '/api/v2/wallet/quotes';
    const { status } = await request(url, list, { headers: { authorization: wallet.sign(list) } });
    expect({ status, isCommitted }).toEqual({ status: 200, isCommitted: false });
    await invoice;
  });

  it('is reported as failing while it is damaged', async () => {
    const dataDir = newDataDir();
    const service = new NutpostProcess('serve', { DATA_DIR: dataDir });
    const url = await service.listening();
    const other = new DatabaseSync(sqliteFile(dataDir), { timeout: START_MS });
    // The service reads all pages again after another process has written.
    other.exec(`insert into users (pubkey) values ('changed'); pragma wal_checkpoint(truncate)`);
    other.close();
    const bytes = fs.statSync(sqliteFile(dataDir)).size;
    const file = fs.openSync(sqliteFile(dataDir), 'r+');
    fs.writeSync(file, Buffer.alloc(bytes - PAGE_BYTES, 0xff), 0, bytes - PAGE_BYTES, PAGE_BYTES);
    fs.closeSync(file);

    const { body } = await request(url, `/.well-known/lnurlp/${new TestWallet(url).npub}`);
    expect(body).toEqual({
      status: 'ERROR',
      reason: 'The service is temporarily unavailable. Please try again.',
    });
    expect(await request(url, '/health/ready')).toMatchObject({
      status: 503,
      body: { status: 'failing', checks: { database: 'failing' } },
    });
    expect(service.stdout).toContain('"event":"database_unavailable"');
  });

  it('has a small WAL file again after a long read of another process', async () => {
    const dataDir = newDataDir();
    const database = await openDatabase({ kind: 'sqlite', dataDir }, () => undefined);
    onTestFinished(() => database.close());
    const reader = new DatabaseSync(sqliteFile(dataDir));
    reader.exec('begin');
    reader.prepare('select * from relays').all();
    for (let row = 0; row < 100; row += 1) {
      await database.db
        .insertInto('relays')
        .values({ url: `${row}`, last_word: LONG })
        .execute();
    }
    const walBytes = () => fs.statSync(`${sqliteFile(dataDir)}-wal`).size;
    const before = walBytes();
    const startedAtMs = performance.now();
    await database.checkpoint();
    // It does not wait for the reader.
    expect(performance.now() - startedAtMs).toBeLessThan(SERVICE_BUSY_TIMEOUT_MS / 2);
    expect(walBytes()).toBe(before);
    reader.close();
    await database.checkpoint();
    expect(walBytes()).toBe(0);
  });

  it('rejects writes while another process locks it for long, and serves reads', async () => {
    const dataDir = newDataDir();
    const location = { kind: 'sqlite', dataDir } as const;
    const service = await openDatabase(location, () => undefined);
    onTestFinished(() => service.close());
    const command = await openExistingDatabase(location, () => undefined);
    onTestFinished(() => command.close());
    const write = ({ db }: Database, pubkey: string) =>
      db.insertInto('users').values({ pubkey }).execute();
    const other = new DatabaseSync(sqliteFile(dataDir));
    other.exec('begin immediate');

    const ofCommand = write(command, 'command');
    await expect(write(service, 'first')).rejects.toThrow(DatabaseUnavailable);
    expect(service.isWritable()).toBe(false);
    // It does not wait again, because all writes wait for each other.
    const triedAtMs = performance.now();
    await expect(write(service, 'second')).rejects.toThrow(DatabaseUnavailable);
    expect(performance.now() - triedAtMs).toBeLessThan(SERVICE_BUSY_TIMEOUT_MS / 2);
    expect(await service.db.selectFrom('users').selectAll().execute()).toEqual([]);

    // A write that waits for long, as on a disk that does not respond, is reported before it fails.
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
    const add = (url: string) => db.insertInto('relays').values({ url, last_word: LONG }).execute();
    await add('first');
    // Fewer pages than there are: no more can be added.
    await sql`pragma max_page_count = 1`.execute(db);
    await expect(add('second')).rejects.toThrow(DatabaseUnavailable);
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
    await expect(add('second')).rejects.toThrow(DatabaseUnavailable);
    expect(database.isWritable()).toBe(false);
  });

  it('with another file in the place of the database is refused', async () => {
    const dataDir = newDataDir();
    fs.mkdirSync(dataDir);
    fs.writeFileSync(sqliteFile(dataDir), 'something else'.repeat(100));
    await expect(openDatabase({ kind: 'sqlite', dataDir }, () => undefined)).rejects.toThrow(
      /^DATA_DIR: \S+ cannot be used \(file is not a database\)\.$/,
    );
  });
});

interface Invoice {
  pr: string;
  verify: string;
}

/** Requests invoices at the same time, and kills the service between two answers. */
async function askUntilKilled(service: NutpostProcess, count: number): Promise<Invoice[]> {
  const url = await service.listening();
  const wallet = new TestWallet(url);
  const invoices: Invoice[] = [];
  const keepAsking = async (): Promise<void> => {
    while (invoices.length < count) {
      const { body } = await request(url, `/.well-known/lnurlp/${wallet.npub}?amount=21000`);
      invoices.push(body);
    }
    await service.kill();
  };
  // A request that the kill cut off has no invoice.
  await Promise.all(Array.from({ length: 4 }, () => keepAsking().catch(() => undefined)));
  expect(invoices.length).toBeGreaterThanOrEqual(count);
  return invoices;
}

/** Of two processes on one directory: the address of the one that runs, and the end of the other. */
function oneOf(...processes: [NutpostProcess, NutpostProcess]) {
  return Promise.all([
    Promise.any(processes.map((each) => each.listening())),
    Promise.race(processes.map((each) => each.ended())),
  ]);
}

/** Waits until something is written that is not synced yet. */
async function nextWrite(disk: FaultyDisk): Promise<void> {
  const before = disk.position();
  await vi.waitFor(() => expect(disk.position()).toBeGreaterThan(before), {
    timeout: START_MS,
    interval: 5,
  });
}

function newDataDir(): string {
  const folder = fs.mkdtempSync(path.join(tmpdir(), 'nutpost-durability-'));
  onTestFinished(() => fs.rmSync(folder, { recursive: true, force: true }));
  return path.join(folder, 'data');
}
