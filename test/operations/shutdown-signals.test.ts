import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { createDataDir } from '../helpers/database/test-database.ts';
import { eventually } from '../helpers/eventually.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { NutpostProcess } from '../helpers/service/nutpost-process.ts';

/** Tests how the service exits after signals, also through npm. */

const PROJECT_DIR = path.resolve(import.meta.dirname, '../..');

let dataDir: string;

beforeAll(async () => {
  const created = await createDataDir();
  dataDir = created.dataDir;
  return created.remove;
});

it('exits with code 1 at a second signal, although a request is pending', async () => {
  const mint = await startTestMint();
  const service = new NutpostProcess('serve', {
    DATA_DIR: dataDir,
    DEFAULT_MINT_URL: mint.url,
    STOP_DELAY_SECONDS: '5',
  });
  const url = await service.waitForUrl();
  const heldRequest = mint.holdNext('POST /v1/mint/quote/bolt11', 'before');
  onTestFinished(() => heldRequest.release());
  const pendingRequest = requestJson(
    url,
    `/.well-known/lnurlp/${new RecipientClient(url).npub}?amount=21000`,
  );
  const requestFails = expect(pendingRequest).rejects.toThrow();
  await heldRequest.reached;

  const exit = service.stop();
  await eventually(async () =>
    expect((await requestJson(url, '/health/ready')).body.status).toBe('stopping'),
  );
  await service.stop();
  // A shutdown after one signal would wait for the pending request and exit with code 0.
  expect(await exit).toEqual({ code: 1, signal: null, stderr: '' });
  await requestFails;
});

it.each<[string, (npmPid: number) => void]>([
  // A supervisor or a container engine does this.
  ['SIGTERM to npm', (npmPid) => process.kill(npmPid, 'SIGTERM')],
  // A terminal sends SIGINT to npm and to the service. npm forwards the signal, so the service receives two.
  ['Ctrl-C in the terminal of npm', (npmPid) => process.kill(-npmPid, 'SIGINT')],
])('exits with code 0 after %s', async (_cause, sendSignal) => {
  const npm = spawn('npm', ['start'], {
    cwd: PROJECT_DIR,
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
  onTestFinished(() => killProcessGroup(npm));
  let output = '';
  const listening = Promise.withResolvers<void>();
  npm.stdout?.on('data', (chunk) => {
    output += chunk;
    if (output.includes('nutpost is listening')) {
      listening.resolve();
    }
  });
  const exit = once(npm, 'close');
  await Promise.race([listening.promise, exit]);
  expect(output.match(/nutpost is listening/g)).toHaveLength(1);
  sendSignal(Number(npm.pid));
  expect(await exit).toEqual([0, null]);
  expect(output).toContain('nutpost has stopped');
});

/** Kills the processes that a failed test leaves. */
function killProcessGroup(leader: ChildProcess): void {
  try {
    process.kill(-Number(leader.pid), 'SIGKILL');
  } catch {}
}
