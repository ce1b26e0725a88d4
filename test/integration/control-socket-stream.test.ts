import { once } from 'node:events';
import fs from 'node:fs';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeAll, expect, it, onTestFinished, vi } from 'vitest';
import { askService } from '../../src/commands/ask-service.ts';
import { ControlSocket } from '../../src/commands/control-socket.ts';
import type { Database } from '../../src/database/database.ts';
import { Store } from '../../src/store/store.ts';
import { useDatabase } from '../helpers/database.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { npubcashImport, operate } from '../helpers/operator.ts';
import { keepPayments } from '../helpers/quotes.ts';
import { TestTerminal } from '../helpers/test-terminal.ts';

/** Commands that take long or say much, run by the service that has the embedded database. */

/** With these payments each, more than the buffers of a socket hold. */
const RECIPIENTS = ['a1'.repeat(32), 'b2'.repeat(32), 'c3'.repeat(32)];
const PAYMENTS = 3_000;

const GIBIBYTE = 2 ** 30;

const FIRST_PAGE = { sinceSeconds: null, limit: 50, offset: 0 };

let database: Database;
useDatabase((opened) => {
  database = opened;
});
beforeAll(async () => {
  for (const recipient of RECIPIENTS) {
    await keepPayments(database, recipient, PAYMENTS);
  }
});

it('an export arrives whole, and tells how far it is on the way', async () => {
  const { dataDir } = await startSocket();
  const terminal = new TestTerminal();
  const { exitCode, stderr } = await askService(dataDir, ['export'], terminal);
  expect(exitCode).toBe(0);
  expect(stderr).toContain('Exported 9,003 rows.\n');
  expect(terminal.told).toContain('Exported 1,003 of 9,003 rows (11 %)');
  const direct = new TestTerminal();
  await operate(database, ['export'], { terminal: direct });
  const rows = (archive: string) => archive.split('\n').slice(1);
  expect(rows(terminal.written)).toEqual(rows(direct.written));
});

it('who reads an export slowly keeps nobody from the database', async () => {
  const { dataDir, captured } = await startSocket();
  const reading = ask(dataDir, ['export']);
  const [response] = (await once(reading, 'response')) as [IncomingMessage];
  response.pause();
  const { total } = await new Store(database.db).quotes.listPaid(RECIPIENTS[0] ?? '', FIRST_PAGE);
  expect(total).toBe(PAYMENTS);
  reading.destroy();
  await captured.until('the client of a command disconnected');
  expect(fs.readdirSync(dataDir)).toEqual(['control.sock']);
});

it.each([
  ['from the beginning', 0],
  ['after a while', 1],
])('an export leaves the service the last of the disk, %s', async (_when, looksBefore) => {
  const looks = vi.spyOn(fs.promises, 'statfs');
  onTestFinished(() => looks.mockRestore());
  for (let look = 0; look < looksBefore; look += 1) {
    looks.mockResolvedValueOnce(diskWith(100 * GIBIBYTE));
  }
  looks.mockResolvedValue(diskWith(0.2 * GIBIBYTE));
  const { dataDir } = await startSocket();
  const terminal = new TestTerminal();
  const { exitCode, stderr } = await askService(dataDir, ['export'], terminal);
  expect({ exitCode, stderr, written: terminal.written }).toEqual({
    exitCode: 1,
    stderr: expect.stringMatching(/^DATA_DIR: has no room for an export/),
    written: '',
  });
  expect(looks).toHaveBeenCalledTimes(looksBefore + 1);
});

it('an import is not for a service that runs', async () => {
  const { dataDir } = await startSocket();
  const { exitCode, stderr } = await askService(dataDir, ['import'], new TestTerminal('{}\n'));
  expect(exitCode).toBe(1);
  expect(stderr).toContain('stop the service first');
});

async function startSocket(): Promise<{ dataDir: string; captured: LogCapture }> {
  const dataDir = fs.mkdtempSync(path.join(tmpdir(), 'nutpost-control-'));
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
  const captured = new LogCapture('debug');
  const store = new Store(database.db);
  const importNpubcash = npubcashImport(store, Date.now);
  const own = { reservedNames: [], treasury: null, version: '1.2.3' };
  const parts = { store, ...own, importNpubcash, clock: Date.now };
  const socket = new ControlSocket({ dataDir, parts, log: captured.log });
  onTestFinished(() => socket.stop());
  await socket.start();
  return { dataDir, captured };
}

function diskWith(freeBytes: number): fs.StatsFs {
  return { ...fs.statfsSync(tmpdir()), bsize: 1, bavail: freeBytes };
}

function ask(dataDir: string, argv: readonly string[]): ClientRequest {
  const socketPath = path.join(dataDir, 'control.sock');
  const asking = request({ socketPath, method: 'POST', path: '/run', agent: false });
  asking.end(JSON.stringify({ argv }));
  return asking;
}
