import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { isPostgres } from '../helpers/database/test-database.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';

/** The demo takes seconds, but creating its database may take two minutes on a busy machine. */
const TEST_TIMEOUT_MS = 300_000;

vi.setConfig({ testTimeout: TEST_TIMEOUT_MS });

/** Skips the tests in the PostgreSQL run, because the demo always uses SQLite. */
const test = it.skipIf(isPostgres);

const ROOT = path.resolve(import.meta.dirname, '../..');

/** The user's environment may have the settings of a real service. The demo must ignore them. */
const PRODUCTION_ENV = {
  PORT: '1',
  DATABASE_URL: 'postgres://nutpost@127.0.0.1:1/real',
  DEFAULT_MINT_URL: 'https://mint.example',
};

let tempDir: string;

beforeEach(() => {
  tempDir = mkdtempSync(path.join(tmpdir(), 'nutpost-test-'));
  onTestFinished(() => rmSync(tempDir, { recursive: true, force: true }));
});

test('prints each step of an unlocked and a locked payment', async () => {
  const demo = new DemoProcess('npm', ['run', '--silent', 'demo']);
  expect(await demo.exitStatus).toEqual({ code: 0, signal: null });

  expect(demo.stdout).toBe(stripVTControlCharacters(demo.stdout));
  expect(demo.stderr).not.toContain('"level"');
  expect(demo.listSteps()).toEqual(
    [
      ['Mint', /^http:/],
      ['Service', /^http:/],
      ['Wallet', /^npub1/],
      ['Discovery', /^1 to 1,000,000 sat$/],
      ['Invoice', /^lnbc.*, 21 sat$/],
      ['Payment', /the mint received it/],
      ['Update', /^quote /],
      ['List', /^21 sat, PAID, unlocked$/],
      ['Verify', /^settled$/],
      ['Proofs', /^3 proofs: 16 \+ 4 \+ 1 sat$/],
      ['Update', /^21 sat, ISSUED$/],
      ['Lock', /locked/],
      ['Discovery', /^1 to 1,000,000 sat$/],
      ['Invoice', /^lnbc.*, 100 sat$/],
      ['Payment', /the mint received it/],
      ['Update', /^quote /],
      ['List', /^100 sat, PAID, locked$/],
      ['Verify', /^settled$/],
      ['Proofs', /^3 proofs: 64 \+ 32 \+ 4 sat$/],
      ['Update', /^100 sat, ISSUED$/],
      ['Balance', /^121 sat in 6 unspent proofs$/],
      ['Stop', /^done/],
    ].map(([name, result]) => [name, expect.stringMatching(result ?? '')]),
  );
  expect(listLeftoverFiles()).toEqual([]);
});

test('accepts payments for any npub with --keep until it receives SIGTERM', async () => {
  const port = await findFirstOfTwoFreePorts();
  const demo = new DemoProcess('node', ['bin/nutpost.js', 'demo', '--keep', '--port', `${port}`]);
  await demo.waitForOutput('Press Ctrl-C to stop.');
  const [discoveryUrl = '', invoiceUrl = '', payUrl = '', mintUrl = ''] = demo.listUrls();
  expect([new URL(discoveryUrl).port, payUrl]).toEqual([
    `${port}`,
    `http://localhost:${port + 1}/pay`,
  ]);
  const wallet = new RecipientClient(new URL(discoveryUrl).origin);
  const withWalletNpub = (url: string) => url.replace(/npub1[0-9a-z]+/, wallet.npub);
  const socket = await wallet.openSocket();

  expect((await requestJson(withWalletNpub(discoveryUrl), '')).body.tag).toBe('payRequest');
  const { body: invoice } = await requestJson(withWalletNpub(invoiceUrl), '');
  const payment = await fetch(payUrl, { method: 'POST', body: JSON.stringify(invoice) });
  expect(await payment.text()).toBe('paid\n');
  expect((await socket.nextMessage()).type).toBe('update');
  expect(await wallet.listPaidQuotes()).toMatchObject([{ amount: 21, state: 'PAID' }]);
  expect((await requestJson(invoice.verify, '')).body.settled).toBe(true);
  // The examples in docs/api.md also need zaps and usernames.
  expect((await requestJson(withWalletNpub(discoveryUrl), '')).body.allowsNostr).toBe(true);
  const { body: info } = await requestJson(new URL(discoveryUrl).origin, '/api/v2/info');
  expect(info.data.features.username).toMatchObject({ payment: { mints: [mintUrl] } });

  const secondPayment = await fetch(payUrl, { method: 'POST', body: invoice.pr });
  expect([secondPayment.status, await secondPayment.text()]).toEqual([
    400,
    expect.stringContaining('already paid'),
  ]);

  demo.kill('SIGTERM');
  expect(await demo.exitStatus).toEqual({ code: 0, signal: null });
  expect(demo.stderr).toBe('');
  expect(listLeftoverFiles()).toEqual([]);
});

/** Finds two free ports, n and n + 1, below the range that systems use for port 0. Returns n. */
async function findFirstOfTwoFreePorts(): Promise<number> {
  const firstPort = randomInt(10_000, 30_000);
  try {
    for (const port of [firstPort, firstPort + 1]) {
      const probe = createServer().listen(port, '127.0.0.1');
      await once(probe, 'listening');
      probe.close();
      await once(probe, 'close');
    }
    return firstPort;
  } catch {
    return findFirstOfTwoFreePorts();
  }
}

function listLeftoverFiles(): string[] {
  return readdirSync(tempDir).filter((name) => name.startsWith('nutpost'));
}

class DemoProcess {
  stdout = '';
  stderr = '';
  readonly exitStatus: Promise<{ code: number | null; signal: string | null }>;
  readonly #child;

  constructor(program: 'npm' | 'node', args: string[]) {
    this.#child = spawn(program === 'node' ? process.execPath : program, args, {
      cwd: ROOT,
      env: { ...process.env, ...PRODUCTION_ENV, TMPDIR: tempDir, NO_COLOR: '1' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const child = this.#child;
    onTestFinished(() => void child.kill('SIGKILL'));
    child.stdout.setEncoding('utf8').on('data', (text) => {
      this.stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text) => {
      this.stderr += text;
    });
    this.exitStatus = once(child, 'close').then(([code, signal]) => ({ code, signal }));
  }

  async waitForOutput(text: string): Promise<void> {
    while (!this.stdout.includes(text)) {
      await Promise.race([
        once(this.#child.stdout, 'data'),
        this.exitStatus.then(() => {
          throw new Error(`the demo exited without printing ${text}: ${this.stdout}${this.stderr}`);
        }),
      ]);
    }
  }

  listSteps(): [name: string, result: string][] {
    return [...this.stdout.matchAll(/^ {2}(\w+) .*✓ +\S+ m?s {2}(.*)$/gm)].map(
      ([, name = '', result = '']) => [name, result],
    );
  }

  listUrls(): string[] {
    const instructions = this.stdout.slice(this.stdout.indexOf('The demo keeps running'));
    return [...instructions.matchAll(/http[^\s']+/g)].map(([url]) => url);
  }

  kill(signal: 'SIGTERM' | 'SIGINT'): void {
    this.#child.kill(signal);
  }
}
