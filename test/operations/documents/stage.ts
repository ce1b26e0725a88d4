import { mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { installFromDistribution, run } from '../../../scripts/machine.ts';
import { readConfig } from '../../../src/config.ts';
import { demoSettings } from '../../../src/demo/demo.ts';
import { openPayDesk } from '../../../src/demo/pay-desk.ts';
import { TestMint } from '../../../src/demo/test-mint.ts';
import { openLog } from '../../../src/log.ts';
import { type Service, startService } from '../../../src/service.ts';
import { EcashPayer } from '../../helpers/ecash-payer.ts';
import { createServerDatabase } from '../../helpers/server-database.ts';
import { buyUsername } from '../../helpers/username-buyer.ts';
import { request, TestWallet } from '../../helpers/wallet.ts';
import { Shell } from './shell.ts';

const ROOT = path.resolve(import.meta.dirname, '../../..');

/** What a clone has and a reader's own folder begins without. */
const NOT_OF_A_CLONE = new Set(['.git', '.env', 'data']);

/** Programs that the examples call; Debian's packages have the same names. */
const TOOLS = ['curl', 'jq', 'openssl'];

/**
 * The surroundings that the documents speak of: a service with a test mint and the settings of the demo, a pay desk, a recipient with
 * the name alice who has been paid twice and has an invoice out, and a PostgreSQL server. What a document
 * calls `http://localhost:3000` or `https://mint.example` is one of these.
 */
export class Stage {
  readonly #mint: TestMint;
  readonly #service: Service;
  readonly #payDeskUrl: string;
  readonly #settings: Record<string, string>;
  readonly #end: AsyncDisposableStack;

  /** Starts everything; {@link close} ends it. */
  static async open(): Promise<Stage> {
    await installMissingTools();
    await using end = new AsyncDisposableStack();
    const dataDir = await mkdtemp(path.join(tmpdir(), 'nutpost-documents-'));
    end.defer(() => rm(dataDir, { recursive: true, force: true }));
    const mint = await TestMint.start();
    end.defer(() => mint.close());
    const payDesk = await openPayDesk(mint);
    end.defer(() => payDesk.close());
    const settings = { ...demoSettings(mint.url), PORT: '0', DATA_DIR: dataDir };
    const config = readConfig(settings);
    const service = await startService(config, { log: openLog('silent') });
    end.defer(() => service.stop());
    await settleAlice(service, mint, config.usernames.priceSat ?? 0);
    return new Stage(mint, service, payDesk.url, settings, end.move());
  }

  private constructor(
    mint: TestMint,
    service: Service,
    payDeskUrl: string,
    settings: Record<string, string>,
    end: AsyncDisposableStack,
  ) {
    this.#mint = mint;
    this.#service = service;
    this.#payDeskUrl = payDeskUrl;
    this.#settings = settings;
    this.#end = end;
  }

  /**
   * A terminal in a clone, as a reader of one document has it.
   *
   * @param ownPort the document starts a service itself, which gets this port; else it speaks of the one
   *   that runs here
   */
  async openTerminal(ownPort: number | null): Promise<Terminal> {
    await using end = new AsyncDisposableStack();
    const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-reader-'));
    end.defer(() => rm(folder, { recursive: true, force: true }));
    for (const name of await readdir(ROOT)) {
      if (!NOT_OF_A_CLONE.has(name)) {
        await symlink(path.join(ROOT, name), path.join(folder, name));
      }
    }
    await mkdir(path.join(folder, '.bin'));
    await symlink(path.join(ROOT, 'bin/nutpost.js'), path.join(folder, '.bin/nutpost'));
    const database = await createServerDatabase();
    end.defer(() => database.drop());
    const npubcash = await createServerDatabase();
    end.defer(() => npubcash.drop());
    const { PATH = '' } = process.env;
    const shell = new Shell(folder, {
      HOME: folder,
      PATH: [path.join(folder, '.bin'), path.join(ROOT, 'node_modules/.bin'), PATH].join(':'),
      LANG: 'C.UTF-8',
      NO_COLOR: '1',
      ...(ownPort === null
        ? this.#settings
        : { PORT: String(ownPort), ALLOW_PRIVATE_NETWORKS: 'true' }),
    });
    end.defer(() => shell.close());
    const host =
      ownPort === null ? new URL(this.#service.publicOrigin).host : `localhost:${ownPort}`;
    return new Terminal(
      folder,
      shell,
      [
        ['https://mint.example', this.#mint.url],
        ['http://localhost:3001/pay', this.#payDeskUrl],
        ['localhost:3000', host],
        ['postgres://nutpost:password@localhost:5432/nutpost', database.url],
        ['postgres://npubcash:password@localhost:5432/npubcash', npubcash.url],
      ],
      end.move(),
    );
  }

  async close(): Promise<void> {
    await this.#end.disposeAsync();
  }
}

/** A shell in a clone, in which the names that a document uses stand for what there is. */
export class Terminal {
  readonly folder: string;
  readonly shell: Shell;
  readonly #standIns: readonly [name: string, real: string][];
  readonly #end: AsyncDisposableStack;

  constructor(
    folder: string,
    shell: Shell,
    standIns: readonly [string, string][],
    end: AsyncDisposableStack,
  ) {
    this.folder = folder;
    this.shell = shell;
    this.#standIns = standIns;
    this.#end = end;
  }

  /** What a document has, as it can be run here. */
  real(text: string): string {
    return this.#standIns.reduce((so, [name, real]) => so.replaceAll(name, real), text);
  }

  /** What was printed here, as a document has it. */
  shown(text: string): string {
    return this.#standIns.reduce((so, [name, real]) => so.replaceAll(real, name), text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end.disposeAsync();
  }
}

async function installMissingTools(): Promise<void> {
  for (const tool of TOOLS) {
    if ((await run('bash', ['-c', `command -v ${tool}`]).catch(() => null)) === null) {
      await installFromDistribution(tool);
    }
  }
}

async function settleAlice(service: Service, mint: TestMint, nameSat: number): Promise<void> {
  const alice = new TestWallet(service.publicOrigin);
  const payer = await EcashPayer.open(mint);
  const { status } = await buyUsername(alice, 'alice', await payer.token(nameSat));
  if (status !== 201) {
    throw new Error(`alice did not get her name: ${status}`);
  }
  const socket = await alice.openSocket();
  for (const amountSat of [21, 100, 42]) {
    const { body } = await request(
      service.url,
      `/.well-known/lnurlp/alice?amount=${amountSat * 1000}`,
    );
    if (amountSat !== 42) {
      mint.pay(body.pr);
      await socket.next();
    }
  }
  await socket.close();
}
