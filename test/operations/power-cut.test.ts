import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { expect, it, onTestFinished, vi } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import { sqliteFilePath } from '../../src/database/data-dir.ts';
import { openDatabase } from '../../src/database/database.ts';
import { FaultyDisk } from '../helpers/faulty-disk.ts';
import { NutpostProcess } from '../helpers/nutpost-process.ts';
import { startMint } from '../helpers/start-test-mint.ts';
import { requestJson, TestWallet } from '../helpers/test-wallet.ts';

const RECIPIENTS = 4;
/** Enough for several checkpoints. Half of the invoices are paid. */
const INVOICES_EACH = 60;

const CUTS = 60;

/** Unsynced writes may be on the disk or lost. */
const SURVIVAL: readonly (() => boolean)[] = [() => false, () => true, () => Math.random() < 0.5];

interface Invoice {
  request: string;
  verifyPath: string;
  /** Positions in the log of disk writes when the payer got the invoice, and when its payment was reported. */
  issuedAt: number;
  paidAt: number;
}

it('keeps every acknowledged invoice and payment, whenever the power fails', async () => {
  const mint = await startMint();
  const disk = new FaultyDisk();
  const service = new NutpostProcess('serve', { ...disk.env, DEFAULT_MINT_URL: mint.url });
  const url = await service.waitUntilListening();
  const recipients = Array.from({ length: RECIPIENTS }, () => receive(url, mint, disk));
  const invoices = (await Promise.all(recipients)).flat();
  await service.kill();
  const end = disk.journalPosition();

  for (let cut = 0; cut < CUTS; cut += 1) {
    const position = Math.round(Math.random() * end);
    const survives = SURVIVAL[cut % SURVIVAL.length] as () => boolean;
    const dataDir = disk.simulatePowerCut(position, survives);
    const reopened = await openDatabase({ kind: 'sqlite', dataDir }, () => undefined);
    await reopened.close();
    const { integrity, found } = readBack(dataDir);
    const context = `cut ${cut} at ${position} of ${end}`;
    expect(integrity, context).toBe('ok');
    for (const { request: key, issuedAt, paidAt } of invoices) {
      expect(issuedAt > position || found.has(key), context).toBe(true);
      expect(paidAt > position || found.get(key) === true, context).toBe(true);
    }
    fs.rmSync(dataDir, { recursive: true });
  }

  const next = new NutpostProcess('serve', {
    DATA_DIR: disk.simulatePowerCut(end, () => false),
    DEFAULT_MINT_URL: mint.url,
  });
  const nextUrl = await next.waitUntilListening();
  for (const { verifyPath, request: pr, paidAt } of invoices) {
    const settled = paidAt < Number.POSITIVE_INFINITY;
    expect((await requestJson(nextUrl, verifyPath)).body).toMatchObject({ settled, pr });
  }
});

// Otherwise the test above could pass on a disk that keeps everything.
it.each(['full', 'off'] as const)('loses what synchronous = %s does not sync', (synchronous) => {
  const disk = new FaultyDisk();
  fs.mkdirSync(disk.dataDir);
  const script = `
    const database = new (require('node:sqlite').DatabaseSync)(${JSON.stringify(sqliteFilePath(disk.dataDir))});
    database.exec('pragma journal_mode = wal; pragma synchronous = full; create table kept (value)');
    database.exec('pragma synchronous = ${synchronous}; insert into kept values (1)');
    process.kill(process.pid, 'SIGKILL');`;
  spawnSync(process.execPath, ['-e', script], { env: disk.env });
  const database = new DatabaseSync(
    sqliteFilePath(disk.simulatePowerCut(disk.journalPosition(), () => false)),
  );
  onTestFinished(() => database.close());
  const { count } = database.prepare('select count(*) as count from kept').get() ?? {};
  expect(count).toBe(synchronous === 'full' ? 1 : 0);
});

/** Requests the invoices of one recipient, and pays every second one. */
async function receive(url: string, mint: TestMint, disk: FaultyDisk): Promise<Invoice[]> {
  const { npub } = new TestWallet(url);
  const invoices: Invoice[] = [];
  while (invoices.length < INVOICES_EACH) {
    const { body } = await requestJson(url, `/.well-known/lnurlp/${npub}?amount=21000`);
    const verifyPath = new URL(body.verify).pathname;
    const invoice = {
      request: body.pr,
      verifyPath,
      issuedAt: disk.journalPosition(),
      paidAt: Number.POSITIVE_INFINITY,
    };
    invoices.push(invoice);
    if (invoices.length % 2 === 0) {
      mint.pay(body.pr);
      await vi.waitFor(
        async () => expect((await requestJson(url, verifyPath)).body.settled).toBe(true),
        { timeout: 30_000, interval: 10 },
      );
      invoice.paidAt = disk.journalPosition();
    }
  }
  return invoices;
}

/** Returns the payment requests that a database has, and whether each is paid. */
function readBack(dataDir: string): { integrity: unknown; found: Map<unknown, boolean> } {
  const database = new DatabaseSync(sqliteFilePath(dataDir));
  const integrity = database.prepare('pragma integrity_check').get()?.['integrity_check'];
  const rows = database.prepare(`select request, state = 'PAID' as paid from quotes`).all();
  database.close();
  return { integrity, found: new Map(rows.map(({ request: key, paid }) => [key, paid === 1])) };
}
