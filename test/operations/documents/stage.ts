import { mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { demoSettings } from '../../../demo/demo.ts';
import { openPayDesk } from '../../../demo/pay-desk.ts';
import { TestMint } from '../../../demo/test-mint.ts';
import { installFromDistribution, run } from '../../../scripts/machine.ts';
import { readConfig } from '../../../src/config.ts';
import { openLog } from '../../../src/log.ts';
import { type Service, startService } from '../../../src/service.ts';
import { EcashPayer } from '../../helpers/ecash-payer.ts';
import { createServerDatabase } from '../../helpers/server-database.ts';
import { buyUsername } from '../../helpers/username-buyer.ts';
import { request, TestWallet } from '../../helpers/wallet.ts';
import { Shell } from './shell.ts';

const ROOT = path.resolve(import.meta.dirname, '../../..');

/** Parts of this folder that a new clone does not have. */
const NOT_OF_A_CLONE = new Set(['.git', '.env', 'data']);

/** Programs that the examples call; Debian's packages have the same names. */
const TOOLS = ['curl', 'jq', 'openssl', 'sqlite3'];

/**
 * What the documents assume: the demo's service and test mint, a pay desk, and a recipient named alice
 * with two payments and an unpaid invoice.
 */
export interface Stage {
  mint: TestMint;
  service: Service;
  payDeskUrl: string;
  settings: Record<string, string>;
}

/** A shell in a clone, in which the names of a document stand for what runs here. */
export interface Terminal {
  folder: string;
  shell: Shell;
  real: (text: string) => string;
  /** Replaces what runs here with the names of a document. */
  shown: (text: string) => string;
}

export async function openStage(end: AsyncDisposableStack): Promise<Stage> {
  await installTools();
  const dataDir = await temporaryFolder('documents', end);
  const mint = await TestMint.start();
  end.defer(() => mint.close());
  const payDesk = await openPayDesk(mint);
  end.defer(() => payDesk.close());
  const settings = { ...demoSettings(mint.url), PORT: '0', DATA_DIR: dataDir };
  const config = readConfig(settings);
  const service = await startService(config, { log: openLog('silent') });
  end.defer(() => service.stop());
  await createAlice(service, mint, config.usernames.priceSat ?? 0);
  return { mint, service, payDeskUrl: payDesk.url, settings };
}

/** @param ownPort of the service that the document starts itself; null: it uses the one of the stage */
export async function openTerminal(
  { mint, service, payDeskUrl, settings }: Stage,
  ownPort: number | null,
  end: AsyncDisposableStack,
): Promise<Terminal> {
  const folder = await temporaryFolder('reader', end);
  for (const name of await readdir(ROOT)) {
    if (!NOT_OF_A_CLONE.has(name)) {
      await symlink(path.join(ROOT, name), path.join(folder, name));
    }
  }
  await mkdir(path.join(folder, '.bin'));
  await symlink(path.join(ROOT, 'bin/nutpost.js'), path.join(folder, '.bin/nutpost'));
  const [database, npubcash] = [await createServerDatabase(), await createServerDatabase()];
  end.defer(() => database.drop());
  end.defer(() => npubcash.drop());
  const { PATH = '' } = process.env;
  const shell = new Shell(folder, {
    HOME: folder,
    PATH: [path.join(folder, '.bin'), path.join(ROOT, 'node_modules/.bin'), PATH].join(':'),
    LANG: 'C.UTF-8',
    NO_COLOR: '1',
    ...(ownPort === null ? settings : { PORT: `${ownPort}`, ALLOW_PRIVATE_NETWORKS: 'true' }),
  });
  end.defer(() => shell.close());
  const names: [name: string, real: string][] = [
    ['https://mint.example', mint.url],
    ['http://localhost:3001/pay', payDeskUrl],
    [
      'localhost:3000',
      ownPort === null ? new URL(service.publicOrigin).host : `localhost:${ownPort}`,
    ],
    ['postgres://nutpost:password@localhost:5432/nutpost', database.url],
    ['postgres://npubcash:password@localhost:5432/npubcash', npubcash.url],
  ];
  return {
    folder,
    shell,
    real: (text) => names.reduce((so, [name, real]) => so.replaceAll(name, real), text),
    shown: (text) => names.reduce((so, [name, real]) => so.replaceAll(real, name), text),
  };
}

/** Installs the programs that examples call and this machine does not have. */
export async function installTools(): Promise<void> {
  for (const tool of TOOLS) {
    if ((await run('bash', ['-c', `command -v ${tool}`]).catch(() => null)) === null) {
      await installFromDistribution(tool);
    }
  }
}

async function temporaryFolder(name: string, end: AsyncDisposableStack): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), `nutpost-${name}-`));
  end.defer(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

async function createAlice(service: Service, mint: TestMint, nameSat: number): Promise<void> {
  const alice = new TestWallet(service.publicOrigin);
  const payer = await EcashPayer.open(mint);
  const { status } = await buyUsername(alice, 'alice', await payer.token(nameSat));
  if (status !== 201) {
    throw new Error(`alice did not get her name: ${status}`);
  }
  const socket = await alice.openSocket();
  const askInvoice = async (amountSat: number) => {
    const path = `/.well-known/lnurlp/alice?amount=${amountSat * 1000}`;
    return (await request(service.url, path)).body.pr;
  };
  for (const amountSat of [21, 100]) {
    mint.pay(await askInvoice(amountSat));
    await socket.next();
  }
  await askInvoice(42);
  await socket.close();
}
