import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import pg from 'pg';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { createDataDir } from '../helpers/database.ts';
import { eventually } from '../helpers/eventually.ts';
import { startMint } from '../helpers/mints.ts';
import { NutpostProcess } from '../helpers/nutpost-process.ts';
import { createServerDatabase } from '../helpers/server-database.ts';
import { request, TestWallet } from '../helpers/wallet.ts';
import { TEST_JWT_SECRET } from '../helpers/world.ts';

/**
 * How an operator ends the service: by a signal, by a second one, through npm, and where it cannot end in
 * order.
 */

const PROJECT = path.resolve(import.meta.dirname, '../..');

let dataDir: string;

beforeAll(async () => {
  const made = await createDataDir();
  dataDir = made.dataDir;
  return made.remove;
});

it('a second signal ends it at once, whatever it still waits for', async () => {
  const mint = await startMint();
  const process = new NutpostProcess('serve', {
    DATA_DIR: dataDir,
    DEFAULT_MINT_URL: mint.url,
    STOP_DELAY_SECONDS: '5',
  });
  const url = await process.listening();
  const hold = mint.hold('POST /v1/mint/quote/bolt11', 'before');
  onTestFinished(() => hold.release());
  const waiting = request(url, `/.well-known/lnurlp/${new TestWallet(url).npub}?amount=21000`);
  const cutOff = expect(waiting).rejects.toThrow();
  await hold.reached;

  const ended = process.stop();
  await eventually(async () =>
    expect((await request(url, '/health/ready')).body.status).toBe('stopping'),
  );
  await process.stop();
  // In order it ends with 0, and not while somebody waits.
  expect(await ended).toEqual({ code: 1, signal: null, stderr: '' });
  await cutOff;
});

it('a stop that the database holds up ends after 10 s, and says so', async () => {
  const mint = await TestMint.start();
  const { url: databaseUrl, drop } = await createServerDatabase();
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
  const url = await process.listening();
  await request(url, `/.well-known/lnurlp/${new TestWallet(url).npub}?amount=21000`);
  await database.connect();
  const leases = () => database.query('select from mint_leases where owner is not null');
  await eventually(async () => expect((await leases()).rowCount).toBe(1));

  // The mint cannot be handed over.
  await database.query('begin');
  await database.query('lock table mint_leases');

  expect(await process.stop()).toEqual({
    code: 1,
    signal: null,
    stderr: 'The shutdown took more than 10 s: exiting at once.\n',
  });
});

it.each([
  // As a supervisor or a container does.
  ['a signal to npm', (npm: ChildProcess) => process.kill(Number(npm.pid), 'SIGTERM')],
  // The terminal sends it to npm and to the service, and npm passes it on once more.
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
  // Of what is written at the start, one line says where.
  expect(output.match(/listening/g)).toHaveLength(1);
  signal(npm);
  expect(await closed).toEqual([0, null]);
  expect(output).toContain('nutpost has stopped');
});

/** Whatever a failed test has left. */
function endGroup(leader: ChildProcess): void {
  try {
    process.kill(-Number(leader.pid), 'SIGKILL');
  } catch {
    // Nobody is left, as it should be.
  }
}
