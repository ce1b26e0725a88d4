import { mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'vitest';
import { demoEnv } from '../../../demo/demo.ts';
import { startPaymentServer } from '../../../demo/payment-server.ts';
import { TestMint } from '../../../demo/test-mint.ts';
import { installDebianPackages, runProgram } from '../../../scripts/debian-packages.ts';
import { readConfig } from '../../../src/config.ts';
import { createLogger } from '../../../src/log.ts';
import { type Service, startService } from '../../../src/service.ts';
import { createOperationsDatabase } from '../../helpers/database/temporary-postgres-database.ts';
import { EcashPayer } from '../../helpers/recipients/ecash-payer.ts';
import { RecipientClient, requestJson } from '../../helpers/recipients/recipient-client.ts';
import { requestUsername } from '../../helpers/recipients/username-requests.ts';
import { DocumentShell } from './document-shell.ts';
import { installSystemdScript } from './systemd-script.ts';

const ROOT = path.resolve(import.meta.dirname, '../../..');

/** A new clone of the project does not have these entries of the project folder in its working directory. */
const UNTRACKED_ENTRIES = new Set(['.git', '.env', 'data']);

const REQUIRED_PROGRAMS = ['curl', 'jq', 'openssl', 'sqlite3'];

/**
 * The environment that the documents assume: the demo's service, test mint and payment server, and a recipient
 * named alice with two payments and an unpaid invoice.
 */
export interface ExampleEnvironment {
  mint: TestMint;
  service: Service;
  /** Of the payment server, which pays invoices of the test mint. */
  payUrl: string;
  env: Record<string, string> & { DATA_DIR: string };
}

/** A shell in a folder like a clone of the project. Converts the addresses in a document from and to actual ones. */
export interface ExampleTerminal {
  folder: string;
  shell: DocumentShell;
  toActual: (text: string) => string;
  toDocumented: (text: string) => string;
}

export async function startExampleEnvironment(
  cleanup: AsyncDisposableStack,
): Promise<ExampleEnvironment> {
  await installRequiredPrograms();
  const dataDir = await createTemporaryFolder('documents', cleanup);
  const mint = await TestMint.start();
  cleanup.defer(() => mint.close());
  const paymentServer = await startPaymentServer(mint);
  cleanup.defer(() => paymentServer.close());
  const env = { ...demoEnv(mint.url), PORT: '0', DATA_DIR: dataDir };
  const config = readConfig(env);
  const service = await startService(config, { log: createLogger('silent') });
  cleanup.defer(() => service.stop());
  await createAlice(service, mint, config.usernames.priceSat ?? 0);
  return { mint, service, payUrl: paymentServer.url, env };
}

/**
 * @param options.exampleServicePort port of the service that the document starts; null if it uses the running service
 * @param options.isOperatorGuide the examples are for root on a machine with deploy/systemd/, whose shell has no settings
 */
export async function openExampleTerminal(
  { mint, service, payUrl, env }: ExampleEnvironment,
  options: { exampleServicePort: number | null; isOperatorGuide: boolean },
  cleanup: AsyncDisposableStack,
): Promise<ExampleTerminal> {
  const { exampleServicePort, isOperatorGuide } = options;
  const folder = await createTemporaryFolder('example', cleanup);
  for (const name of await readdir(ROOT)) {
    if (!UNTRACKED_ENTRIES.has(name)) {
      await symlink(path.join(ROOT, name), path.join(folder, name));
    }
  }
  await mkdir(path.join(folder, '.bin'));
  const systemEtc = await createTemporaryFolder('etc', cleanup);
  const systemLib = await createTemporaryFolder('lib', cleanup);
  const dataDir = path.join(systemLib, 'nutpost');
  if (isOperatorGuide) {
    await symlink(env.DATA_DIR, dataDir);
    await mkdir(path.join(systemEtc, 'nutpost'));
    const settings = path.join(systemEtc, 'nutpost/nutpost.env');
    await installSystemdScript(path.join(folder, '.bin'), settings, env);
  } else {
    await symlink(path.join(ROOT, 'bin/nutpost.js'), path.join(folder, '.bin/nutpost'));
  }
  const [database, npubcash] = [await createOperationsDatabase(), await createOperationsDatabase()];
  cleanup.defer(() => database.drop());
  cleanup.defer(() => npubcash.drop());
  const settingsOfShell =
    exampleServicePort === null
      ? env
      : { PORT: `${exampleServicePort}`, ALLOW_PRIVATE_NETWORKS: 'true' };
  const { PATH = '' } = process.env;
  const shell = new DocumentShell(folder, {
    HOME: folder,
    PATH: [path.join(folder, '.bin'), path.join(ROOT, 'node_modules/.bin'), PATH].join(':'),
    LANG: 'C.UTF-8',
    NO_COLOR: '1',
    ...(isOperatorGuide ? {} : settingsOfShell),
  });
  cleanup.defer(() => shell.close());
  const addresses: [documented: string, actual: string][] = [
    ['https://mint.example', mint.url],
    ['http://localhost:3001/pay', payUrl],
    [
      'localhost:3000',
      exampleServicePort === null
        ? new URL(service.publicOrigin).host
        : `localhost:${exampleServicePort}`,
    ],
    ['postgres://nutpost:password@localhost:5432/nutpost', database.url],
    ['postgres://npubcash:password@localhost:5432/npubcash', npubcash.url],
    ['/etc/nutpost', path.join(systemEtc, 'nutpost')],
    ['/var/lib/nutpost', dataDir],
    // The user of the service does not exist here.
    ['--owner=nutpost --group=nutpost ', ''],
  ];
  return {
    folder,
    shell,
    toActual: (text) => addresses.reduce((result, [from, to]) => result.replaceAll(from, to), text),
    toDocumented: (text) =>
      addresses.reduce((result, [to, from]) => (from ? result.replaceAll(from, to) : result), text),
  };
}

export async function installRequiredPrograms(): Promise<void> {
  for (const program of REQUIRED_PROGRAMS) {
    if ((await runProgram('bash', ['-c', `command -v ${program}`]).catch(() => null)) === null) {
      await installDebianPackages(program);
    }
  }
}

async function createTemporaryFolder(name: string, cleanup: AsyncDisposableStack): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), `nutpost-${name}-`));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

async function createAlice(
  service: Service,
  mint: TestMint,
  usernamePriceSat: number,
): Promise<void> {
  const alice = new RecipientClient(service.publicOrigin);
  const payer = await EcashPayer.open(mint);
  const { status } = await requestUsername(alice, 'alice', await payer.mintToken(usernamePriceSat));
  expect(status).toBe(201);
  const socket = await alice.openSocket();
  const requestInvoice = async (amountSat: number) => {
    const path = `/.well-known/lnurlp/alice?amount=${amountSat * 1000}`;
    return (await requestJson(service.url, path)).body.pr;
  };
  for (const amountSat of [21, 100]) {
    mint.pay(await requestInvoice(amountSat));
    await socket.nextMessage();
  }
  await requestInvoice(42);
  await socket.close();
}
