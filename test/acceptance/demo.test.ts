import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { hasServer } from '../helpers/database.ts';
import { request, TestWallet } from '../helpers/wallet.ts';

/** It takes seconds; a busy machine may take two minutes for the first start of a database alone. */
const DEMO_DEADLINE_MS = 300_000;

vi.setConfig({ testTimeout: DEMO_DEADLINE_MS });

/** The demo brings its own database, whatever the tests run on. */
const test = it.skipIf(hasServer);

const ROOT = path.resolve(import.meta.dirname, '../..');

/** A person may have these set for a real service, which the demo must not touch. */
const SOMEBODYS_SETTINGS = {
  PORT: '1',
  DATABASE_URL: 'postgres://nutpost@127.0.0.1:1/real',
  DEFAULT_MINT_URL: 'https://mint.example',
};

/** Where the demo makes its temporary folder. */
let temporaryFolder: string;

beforeEach(() => {
  temporaryFolder = mkdtempSync(path.join(tmpdir(), 'nutpost-test-'));
  onTestFinished(() => rmSync(temporaryFolder, { recursive: true, force: true }));
});

test('the demo pays and collects an unlocked and a locked payment, step by step', async () => {
  const demo = new DemoProcess('npm', ['run', '--silent', 'demo']);
  expect(await demo.exit).toEqual({ code: 0, signal: null });

  expect(demo.stdout).toBe(stripVTControlCharacters(demo.stdout));
  expect(demo.stderr).not.toContain('"level"');
  expect(demo.steps()).toEqual(
    [
      ['Mint', /^http:/],
      ['Service', /^http:/],
      ['Wallet', /^npub1/],
      ['Discovery', /^1 to 1,000,000 sat$/],
      ['Invoice', /^lnbc.*, 21 sat$/],
      ['Payment', /the mint has the money/],
      ['Update', /^quote /],
      ['List', /^21 sat, PAID, unlocked$/],
      ['Verify', /^settled$/],
      ['Proofs', /^3 proofs: 16 \+ 4 \+ 1 sat$/],
      ['Update', /^21 sat, ISSUED$/],
      ['Lock', /locked/],
      ['Discovery', /^1 to 1,000,000 sat$/],
      ['Invoice', /^lnbc.*, 100 sat$/],
      ['Payment', /the mint has the money/],
      ['Update', /^quote /],
      ['List', /^100 sat, PAID, locked$/],
      ['Verify', /^settled$/],
      ['Proofs', /^3 proofs: 64 \+ 32 \+ 4 sat$/],
      ['Update', /^100 sat, ISSUED$/],
      ['Holdings', /^121 sat in 6 unspent proofs$/],
      ['Stop', /^done/],
    ].map(([name, came]) => [name, expect.stringMatching(came ?? '')]),
  );
  expect(leftBehind()).toEqual([]);
});

test('the demo kept running takes payments for any npub, until it is told to end', async () => {
  const port = await freePairOfPorts();
  const demo = new DemoProcess('node', ['bin/nutpost.js', 'demo', '--keep', '--port', `${port}`]);
  await demo.says('Ctrl-C ends it.');
  const [discoveryUrl = '', invoiceUrl = '', payUrl = '', mintUrl = ''] = demo.addresses();
  expect([new URL(discoveryUrl).port, payUrl]).toEqual([
    `${port}`,
    `http://localhost:${port + 1}/pay`,
  ]);
  const wallet = new TestWallet(new URL(discoveryUrl).origin);
  const forWallet = (url: string) => url.replace(/npub1[0-9a-z]+/, wallet.npub);
  const socket = await wallet.openSocket();

  expect((await request(forWallet(discoveryUrl), '')).body.tag).toBe('payRequest');
  const { body: invoice } = await request(forWallet(invoiceUrl), '');
  const paid = await fetch(payUrl, { method: 'POST', body: JSON.stringify(invoice) });
  expect(await paid.text()).toBe('paid\n');
  expect((await socket.next()).type).toBe('update');
  expect(await wallet.listQuotes()).toMatchObject([{ amount: 21, state: 'PAID' }]);
  expect((await request(invoice.verify, '')).body.settled).toBe(true);
  // What docs/api.md goes on with.
  expect((await request(forWallet(discoveryUrl), '')).body.allowsNostr).toBe(true);
  const { body: info } = await request(new URL(discoveryUrl).origin, '/api/v2/info');
  expect(info.data.features.username).toMatchObject({ payment: { mints: [mintUrl] } });

  const again = await fetch(payUrl, { method: 'POST', body: invoice.pr });
  expect([again.status, await again.text()]).toEqual([
    400,
    expect.stringContaining('already paid'),
  ]);

  demo.kill('SIGTERM');
  expect(await demo.exit).toEqual({ code: 0, signal: null });
  expect(demo.stderr).toBe('');
  expect(leftBehind()).toEqual([]);
});

test('a step that fails is named, and the demo ends with exit code 1', async () => {
  const occupant = createServer().listen(0, '127.0.0.1');
  await once(occupant, 'listening');
  onTestFinished(() => void occupant.close());
  const { port } = occupant.address() as AddressInfo;

  const demo = new DemoProcess('node', ['bin/nutpost.js', 'demo', '--port', String(port)]);

  expect(await demo.exit).toEqual({ code: 1, signal: null });
  expect(demo.stdout).toMatch(/Service .*✗/);
  expect(demo.stderr).toBe(
    'The demo failed at "Service" (nutpost on a new SQLite database): ' +
      `listen EADDRINUSE: address already in use 127.0.0.1:${port}\n`,
  );
  expect(leftBehind()).toEqual([]);
});

/** @returns the first of two; systems do not give away one that low to who asks for any */
async function freePairOfPorts(): Promise<number> {
  const first = randomInt(10_000, 30_000);
  try {
    for (const port of [first, first + 1]) {
      const probe = createServer().listen(port, '127.0.0.1');
      await once(probe, 'listening');
      probe.close();
      await once(probe, 'close');
    }
    return first;
  } catch {
    return freePairOfPorts();
  }
}

function leftBehind(): string[] {
  return readdirSync(temporaryFolder).filter((name) => name.startsWith('nutpost'));
}

/** A demo run as a person would run it, with what it has said so far. */
class DemoProcess {
  stdout = '';
  stderr = '';
  /** How it ended. */
  readonly exit: Promise<{ code: number | null; signal: string | null }>;
  readonly #child;

  constructor(program: 'npm' | 'node', args: string[]) {
    this.#child = spawn(program === 'node' ? process.execPath : program, args, {
      cwd: ROOT,
      env: { ...process.env, ...SOMEBODYS_SETTINGS, TMPDIR: temporaryFolder, NO_COLOR: '1' },
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
    this.exit = once(child, 'close').then(([code, signal]) => ({ code, signal }));
  }

  /** Resolves once it has said this. */
  async says(text: string): Promise<void> {
    while (!this.stdout.includes(text)) {
      await Promise.race([
        once(this.#child.stdout, 'data'),
        this.exit.then(() => {
          throw new Error(`it ended without saying ${text}: ${this.stdout}${this.stderr}`);
        }),
      ]);
    }
  }

  steps(): [name: string, came: string][] {
    return [...this.stdout.matchAll(/^ {2}(\w+) .*✓ +\S+ m?s {2}(.*)$/gm)].map(
      ([, name = '', came = '']) => [name, came],
    );
  }

  /** The addresses in what it says on how to go on, in their order. */
  addresses(): string[] {
    const ending = this.stdout.slice(this.stdout.indexOf('Everything keeps running'));
    return [...ending.matchAll(/http[^\s']+/g)].map(([address]) => address);
  }

  kill(signal: 'SIGTERM' | 'SIGINT'): void {
    this.#child.kill(signal);
  }
}
