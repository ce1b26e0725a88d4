import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { expect, it, onTestFinished, vi } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import { sqliteFilePath } from '../../src/database/data-dir.ts';
import { openDatabase } from '../../src/database/database.ts';
import { FaultyDisk } from '../helpers/database/faulty-disk.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { NutpostProcess } from '../helpers/service/nutpost-process.ts';

const RECIPIENT_COUNT = 4;
/** Enough that SQLite makes several checkpoints. Half of the invoices are paid. */
const INVOICES_PER_RECIPIENT = 60;
const POWER_CUT_COUNT = 24;

/** A power cut can lose all unsynced writes, no unsynced write, or some of them. */
const SURVIVAL_RULES: readonly (() => boolean)[] = [
  () => false,
  () => true,
  () => Math.random() < 0.5,
];

interface Invoice {
  request: string;
  verifyPath: string;
  /** Position in the log of disk operations when the payer received the invoice. */
  issuedPosition: number;
  /** Position when the service reported the payment. Infinity: the invoice is unpaid. */
  paidPosition: number;
}

it('keeps every invoice that it returned and every payment that it reported before a power cut', async () => {
  const mint = await startTestMint();
  const disk = new FaultyDisk();
  const service = new NutpostProcess('serve', { ...disk.env, DEFAULT_MINT_URL: mint.url });
  const url = await service.waitForUrl();
  const simulations = Array.from({ length: RECIPIENT_COUNT }, () =>
    simulateRecipient(url, mint, disk),
  );
  const invoices = (await Promise.all(simulations)).flat();
  await service.kill();
  const endPosition = disk.operationLogPosition();

  for (let cut = 0; cut < POWER_CUT_COUNT; cut += 1) {
    const position = Math.round(Math.random() * endPosition);
    const shouldSurvive = SURVIVAL_RULES[cut % SURVIVAL_RULES.length] as () => boolean;
    const dataDir = disk.simulatePowerCut(position, shouldSurvive);
    const recovered = await openDatabase({ kind: 'sqlite', dataDir }, () => undefined);
    await recovered.close();
    const { integrity, paidByRequest } = readInvoices(dataDir);
    const context = `cut ${cut} at ${position} of ${endPosition}`;
    expect(integrity, context).toBe('ok');
    for (const { request, issuedPosition, paidPosition } of invoices) {
      expect(issuedPosition > position || paidByRequest.has(request), context).toBe(true);
      expect(paidPosition > position || paidByRequest.get(request) === true, context).toBe(true);
    }
    fs.rmSync(dataDir, { recursive: true });
  }

  const restarted = new NutpostProcess('serve', {
    DATA_DIR: disk.simulatePowerCut(endPosition, () => false),
    DEFAULT_MINT_URL: mint.url,
  });
  const restartedUrl = await restarted.waitForUrl();
  for (const { verifyPath, request: pr, paidPosition } of invoices) {
    const settled = Number.isFinite(paidPosition);
    expect((await requestJson(restartedUrl, verifyPath)).body).toMatchObject({ settled, pr });
  }
});

// If the simulated disk kept unsynced writes, the test above could not fail.
it.each([
  { outcome: 'keeps', synchronous: 'full' },
  { outcome: 'loses', synchronous: 'off' },
])('$outcome a write of SQLite with synchronous = $synchronous', ({ outcome, synchronous }) => {
  const disk = new FaultyDisk();
  fs.mkdirSync(disk.dataDir);
  const script = `
    const database = new (require('node:sqlite').DatabaseSync)(${JSON.stringify(sqliteFilePath(disk.dataDir))});
    database.exec('pragma journal_mode = wal; pragma synchronous = full; create table kept (value)');
    database.exec('pragma synchronous = ${synchronous}; insert into kept values (1)');
    process.kill(process.pid, 'SIGKILL');`;
  spawnSync(process.execPath, ['-e', script], { env: disk.env });
  const database = new DatabaseSync(
    sqliteFilePath(disk.simulatePowerCut(disk.operationLogPosition(), () => false)),
  );
  onTestFinished(() => database.close());
  const { count } = database.prepare('select count(*) as count from kept').get() ?? {};
  expect(count).toBe(outcome === 'keeps' ? 1 : 0);
});

async function simulateRecipient(
  url: string,
  mint: TestMint,
  disk: FaultyDisk,
): Promise<Invoice[]> {
  const { npub } = new RecipientClient(url);
  const invoices: Invoice[] = [];
  while (invoices.length < INVOICES_PER_RECIPIENT) {
    const { body } = await requestJson(url, `/.well-known/lnurlp/${npub}?amount=21000`);
    const verifyPath = new URL(body.verify).pathname;
    const invoice = {
      request: body.pr,
      verifyPath,
      issuedPosition: disk.operationLogPosition(),
      paidPosition: Number.POSITIVE_INFINITY,
    };
    invoices.push(invoice);
    if (invoices.length % 2 === 0) {
      mint.pay(body.pr);
      await vi.waitFor(
        async () => expect((await requestJson(url, verifyPath)).body.settled).toBe(true),
        { timeout: 30_000, interval: 10 },
      );
      invoice.paidPosition = disk.operationLogPosition();
    }
  }
  return invoices;
}

function readInvoices(dataDir: string) {
  const database = new DatabaseSync(sqliteFilePath(dataDir));
  const integrity = database.prepare('pragma integrity_check').get()?.['integrity_check'];
  const rows = database.prepare(`select request, state = 'PAID' as paid from quotes`).all();
  database.close();
  const paidByRequest = new Map(rows.map(({ request, paid }) => [request, paid === 1]));
  return { integrity, paidByRequest };
}
