import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { sql } from 'kysely';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { openDatabase } from '../../src/database/database.ts';
import { Store } from '../../src/store/store.ts';
import { hasServer } from '../helpers/database.ts';
import { NutpostProcess } from '../helpers/nutpost-process.ts';
import { request, TestWallet } from '../helpers/wallet.ts';

/** Each start of an embedded database takes seconds, more on a busy machine. */
const SOME_STARTS_MS = 180_000;
vi.setConfig({ testTimeout: SOME_STARTS_MS });

// A server's durability is its own; with one, this would only take time again.
describe.skipIf(hasServer)('an embedded database', () => {
  it('passes from a killed service to the next one, with every invoice that was given out', async () => {
    const mint = await TestMint.start();
    onTestFinished(() => mint.close());
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
        timeout: SOME_STARTS_MS,
      });
    }
  });

  it('is not spoilt by a first start that is killed on its way', async () => {
    const dataDir = newDataDir();
    // Half of the files are there; then all of them, and no table of ours.
    for (const sign of ['postgres.new/global/pg_control', 'postgres/global/pg_control']) {
      const starting = new NutpostProcess('serve', { DATA_DIR: dataDir });
      await vi.waitFor(() => expect(fs.existsSync(path.join(dataDir, sign))).toBe(true), {
        timeout: SOME_STARTS_MS,
        interval: 2,
      });
      await starting.kill();
    }
    const service = new NutpostProcess('serve', { DATA_DIR: dataDir });
    const url = await service.listening();
    expect((await request(url, '/api/v2/info')).status).toBe(200);
    expect(await service.stop()).toEqual({ code: 0, signal: null, stderr: '' });
  });

  it('is closed to every other user of the machine', async () => {
    const dataDir = newDataDir();
    const database = await openDatabase({ kind: 'embedded', dataDir }, () => undefined);
    onTestFinished(() => database.close());
    expect(fs.statSync(path.join(dataDir, 'postgres')).mode & 0o777).toBe(0o700);
  });

  it('of which files are missing is not taken for a new one', async () => {
    const dataDir = newDataDir();
    const files = path.join(dataDir, 'postgres');
    fs.mkdirSync(path.join(files, 'base'), { recursive: true });
    await expect(openDatabase({ kind: 'embedded', dataDir }, () => undefined)).rejects.toThrow(
      /^DATA_DIR: the database in \S+ is damaged/,
    );
    expect(fs.readdirSync(files)).toEqual(['base']);
  });

  it('is synced to the disk at every commit, and not for reading', async () => {
    const database = await openDatabase(
      { kind: 'embedded', dataDir: newDataDir() },
      () => undefined,
    );
    onTestFinished(() => database.close());
    const { users } = new Store(database.db);
    const pubkeys = Array.from({ length: 50 }, () => randomBytes(32).toString('hex'));
    const synced = vi.spyOn(fs, 'fdatasyncSync');
    onTestFinished(() => synced.mockRestore());

    for (const pubkey of pubkeys) {
      const before = synced.mock.calls.length;
      await users.save(pubkey, { lockQuotes: true });
      expect(synced.mock.calls.length).toBeGreaterThan(before);
    }
    const afterWriting = synced.mock.calls.length;
    for (const pubkey of pubkeys) {
      expect(await users.find(pubkey)).toMatchObject({ pubkey });
    }
    expect(synced.mock.calls.length).toBe(afterWriting);
    for (const setting of ['fsync', 'synchronous_commit', 'full_page_writes']) {
      const { rows } = await sql`select current_setting(${setting}) as value`.execute(database.db);
      expect(rows, setting).toEqual([{ value: 'on' }]);
    }
  });
});

interface Invoice {
  pr: string;
  verify: string;
}

/** Payers come from all sides, and the service is killed between two answers. */
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
  // Whose answer the kill cut off has no invoice.
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

function newDataDir(): string {
  const folder = fs.mkdtempSync(path.join(tmpdir(), 'nutpost-durability-'));
  onTestFinished(() => fs.rmSync(folder, { recursive: true, force: true }));
  return path.join(folder, 'data');
}
