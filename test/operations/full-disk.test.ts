import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it, onTestFinished, vi } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { FaultyDisk } from '../helpers/faulty-disk.ts';
import { NutpostProcess } from '../helpers/nutpost-process.ts';
import { type ApiResponse, requestJson, TestWallet } from '../helpers/test-wallet.ts';

const PAYERS = 4;
const READERS = 2;
const EVERY_MS = 10;

/** Requests of each kind before, during and after the full disk. */
const ANSWERS = 50;

/** A response that takes longer counts as a hang, even on a busy machine. */
const ANSWER_WITHIN_MS = 5_000;

/** Readiness changes with the next write, and mints are polled again. */
const RECOVERY_MS = 30_000;

const UNAVAILABLE = {
  status: 'ERROR',
  reason: 'The service is temporarily unavailable. Please try again.',
};

/** A disk that can be filled. */
interface Disk {
  env: Record<string, string>;
  simulateFull(): void;
  clearFull(): void;
}

const canMount = spawnSync('unshare', ['--mount', 'true']).status === 0;

const DISKS: [name: string, create: () => Disk][] = [
  ['refuses writes', () => new FaultyDisk()],
  ...(canMount ? [['is a small file system', smallFileSystem] as [string, () => Disk]] : []),
];

it.each(DISKS)(
  'recovers without a restart when the disk has space again: %s',
  async (_, create) => {
    const mint = await TestMint.start();
    onTestFinished(() => mint.close());
    const disk = create();
    const service = new NutpostProcess('serve', { ...disk.env, DEFAULT_MINT_URL: mint.url });
    const url = await service.waitUntilListening();
    const load = new Load(url);

    await load.answers('invoices', ANSWERS);
    const [early] = load.invoices as [Invoice];
    disk.simulateFull();
    await load.answers('refusals', ANSWERS);
    expect(service.stdout).toContain('"event":"database_unavailable"');
    await vi.waitFor(async () => {
      expect(await ready(url)).toMatchObject({
        status: 503,
        body: { checks: { database: 'failing' } },
      });
    }, RECOVERY_MS);
    mint.pay(early.pr);
    await load.answers('lists', ANSWERS);

    disk.clearFull();
    await load.answers('invoices', ANSWERS);
    await vi.waitFor(async () => expect((await ready(url)).status).toBe(200), RECOVERY_MS);
    await load.end();
    for (const { pr, verify } of load.invoices) {
      expect((await requestJson(url, new URL(verify).pathname)).body).toMatchObject({ pr });
    }
    await vi.waitFor(
      async () =>
        expect((await requestJson(url, new URL(early.verify).pathname)).body.settled).toBe(true),
      RECOVERY_MS,
    );
    expect(await service.stop()).toMatchObject({ code: 0 });
  },
);

it('fails to start on a full disk with one sentence', async () => {
  const disk = new FaultyDisk();
  disk.simulateFull();
  const { code, stderr } = await new NutpostProcess('serve', disk.env).waitForExit();
  expect(stderr).toMatch(/^DATA_DIR: \S+ cannot be used \(database or disk is full\)\.\n$/);
  expect(code).toBe(1);
});

it.each(DISKS)('ends a command and a restart with one sentence: %s', async (_, create) => {
  const disk = create();
  const service = new NutpostProcess('serve', disk.env);
  const url = await service.waitUntilListening();
  disk.simulateFull();
  const command = new NutpostProcess(`user block ${new TestWallet(url).npub}`, disk.env);
  expect(await command.waitForExit()).toEqual({
    code: 1,
    signal: null,
    stderr: 'The database is unavailable: database or disk is full.\n',
  });
  await service.kill();
  const restart = await new NutpostProcess('serve', disk.env).waitForExit();
  // Whether the lock of the directory or the database fails first depends on the disk.
  expect(restart.stderr).toMatch(
    /^(DATA_DIR: \S+ cannot be used \(database or disk is full\)|The database is unavailable: database or disk is full)\.\n$/,
  );
  expect(restart.code).toBe(1);
});

interface Invoice {
  pr: string;
  verify: string;
}

/** Simulates payers, wallets and a supervisor. Fails if a response is late or unexpected. */
class Load {
  readonly invoices: Invoice[] = [];
  readonly #counts = { invoices: 0, refusals: 0, lists: 0, live: 0 };
  readonly #url: string;
  readonly #wallet: TestWallet;
  readonly #loops: Promise<unknown>;
  #isOver = false;

  constructor(url: string) {
    this.#url = url;
    // Without PUBLIC_ORIGINS, signatures are for this host.
    this.#wallet = new TestWallet(url.replace('127.0.0.1', 'localhost'));
    this.#loops = Promise.all([
      ...Array.from({ length: PAYERS }, () => this.#repeat(() => this.#pay())),
      ...Array.from({ length: READERS }, () => this.#repeat(() => this.#list())),
      this.#repeat(() => this.#live()),
    ]);
    onTestFinished(() => {
      this.#isOver = true;
    });
  }

  /** Waits for this many more responses of a kind, and readiness checks. */
  async answers(kind: 'invoices' | 'refusals' | 'lists', count: number): Promise<void> {
    const before = { ...this.#counts };
    const arrived = vi.waitFor(
      () => {
        expect(this.#counts[kind]).toBeGreaterThanOrEqual(before[kind] + count);
        expect(this.#counts.live).toBeGreaterThan(before.live);
      },
      { timeout: RECOVERY_MS, interval: EVERY_MS },
    );
    await Promise.race([arrived, this.#loops]);
    await arrived;
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await this.#loops;
  }

  async #repeat(ask: () => Promise<void>): Promise<void> {
    while (!this.#isOver) {
      await ask();
      await delay(EVERY_MS);
    }
  }

  async #pay(): Promise<void> {
    const { body } = await this.#ask(`/.well-known/lnurlp/${this.#wallet.npub}?amount=21000`);
    if ('pr' in body) {
      this.invoices.push(body);
      this.#counts.invoices += 1;
    } else {
      expect(body).toEqual(UNAVAILABLE);
      this.#counts.refusals += 1;
    }
  }

  async #list(): Promise<void> {
    const list = '/api/v2/wallet/quotes';
    const headers = { authorization: this.#wallet.signRequest(list) };
    expect((await this.#ask(list, { headers })).status).toBe(200);
    this.#counts.lists += 1;
  }

  async #live(): Promise<void> {
    expect((await this.#ask('/health/live')).status).toBe(200);
    this.#counts.live += 1;
  }

  #ask(where: string, init: RequestInit = {}): Promise<ApiResponse> {
    return requestJson(this.#url, where, {
      ...init,
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    });
  }
}

function ready(url: string): Promise<ApiResponse> {
  return requestJson(url, '/health/ready');
}

/** A file system in memory that a second file fills. */
function smallFileSystem(): Disk {
  const folder = fs.mkdtempSync(path.join(tmpdir(), 'nutpost-small-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=20m', 'tmpfs', folder]);
  onTestFinished(() => {
    execFileSync('umount', ['--lazy', folder]);
    fs.rmdirSync(folder);
  });
  const ballast = path.join(folder, 'ballast');
  return {
    env: { DATA_DIR: path.join(folder, 'data') },
    simulateFull: () => void spawnSync('dd', ['if=/dev/zero', `of=${ballast}`, 'bs=4k']),
    clearFull: () => fs.rmSync(ballast),
  };
}
