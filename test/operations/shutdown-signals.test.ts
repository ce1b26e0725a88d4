import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import pg from 'pg';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { createDataDir } from '../helpers/database.ts';
import { eventually } from '../helpers/eventually.ts';
import { NutpostProcess } from '../helpers/nutpost-process.ts';
import { createOperationsDatabase } from '../helpers/postgres-database.ts';
import { startMint } from '../helpers/start-test-mint.ts';
import { TEST_JWT_SECRET } from '../helpers/test-environment.ts';
import { requestJson, TestWallet } from '../helpers/test-wallet.ts';

/**
 * Shutdown by a signal, by a second signal, through npm, and if an orderly shutdown is impossible.
 */

const PROJECT = path.resolve(import.meta.dirname, '../..');

let dataDir: string;

beforeAll(async () => {
  const made = await createDataDir();
  dataDir = made.dataDir;
  return made.remove;
});

it('exits immediately at a second signal', async () => {
  const mint = await startMint();
  const process = new NutpostProcess('serve', {
    DATA_DIR: dataDir,
    DEFAULT_MINT_URL: mint.url,
    STOP_DELAY_SECONDS: '5',
  });
  const url = await process.waitUntilListening();
  const hold = mint.holdNext('POST /v1/mint/quote/bolt11', 'before');
  onTestFinished(() => hold.release());
  const waiting = requestJson(url, `/.well-known/lnurlp/${new TestWallet(url).npub}?amount=21000`);
  const cutOff = expect(waiting).rejects.toThrow();
  await hold.reached;

  const ended = process.stop();
  await eventually(async () =>
    expect((await requestJson(url, '/health/ready')).body.status).toBe('stopping'),
  );
  await process.stop();
  // An orderly shutdown waits for clients and exits with 0.
  expect(await ended).toEqual({ code: 1, signal: null, stderr: '' });
  await cutOff;
});

it('exits after 10 s with an error if the database blocks the shutdown', async () => {
  const mint = await TestMint.start();
  const { url: databaseUrl, drop } = await createOperationsDatabase();
  const database = new pg.Client({ connectionString: databaseUrl });
  onTestFinished(async () => {
    await database.end();
    await drop();
    await mint.close();
  });
  const process = new NutpostProcess('serve', {
    DATABASE_URL: databaseUrl,
    JWT_SECRET: TEST_JWT_SECRET,
    DEFAULT_MINT_URL: mint.url,
  });
  const url = await process.waitUntilListening();
  await requestJson(url, `/.well-known/lnurlp/${new TestWallet(url).npub}?amount=21000`);
  await database.connect();
  const leases = () => database.query('select from mint_leases where process_id is not null');
  await eventually(async () => expect((await leases()).rowCount).toBe(1));

  // The lease of the mint cannot be released.
  await database.query('begin');
  await database.query('lock table mint_leases');

  expect(await process.stop()).toEqual({
    code: 1,
    signal: null,
    stderr: 'The shutdown took more than 10 s: exiting immediately.\n',
  });
});

it.each([
  // As a supervisor or a container does.
  ['a signal to npm', (npm: ChildProcess) => process.kill(Number(npm.pid), 'SIGTERM')],
  // A terminal sends the signal to npm and the service; npm forwards it once more.
  [
    'Ctrl-C in the terminal of npm',
    (npm: ChildProcess) => process.kill(-Number(npm.pid), 'SIGINT'),
  ],
])('%s ends the service in order', async (_what, signal) => {
  const npm = spawn('npm', ['start'], {
    cwd: PROJECT,
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      ...process.env,
      DATA_DIR: dataDir,
      DEFAULT_MINT_URL: 'https://mint.example',
      PORT: '0',
      LOG_FORMAT: 'json',
    },
  });
  onTestFinished(() => endGroup(npm));
  let output = '';
  const isListening = Promise.withResolvers<void>();
  npm.stdout?.on('data', (chunk) => {
    output += chunk;
    if (output.includes('nutpost is listening')) {
      isListening.resolve();
    }
  });
  const closed = once(npm, 'close');
  await Promise.race([isListening.promise, closed]);
  // npm starts the service once.
  expect(output.match(/nutpost is listening/g)).toHaveLength(1);
  signal(npm);
  expect(await closed).toEqual([0, null]);
  expect(output).toContain('nutpost has stopped');
});

/** Kills processes that a failed test left. */
function endGroup(leader: ChildProcess): void {
  try {
    process.kill(-Number(leader.pid), 'SIGKILL');
  } catch {
    // No process is left, as expected.
  }
}
