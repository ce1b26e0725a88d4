import { afterAll, beforeAll, onTestFinished } from 'vitest';
import type { TestMintOptions } from '../../demo/test-mint/state.ts';
import type { TestMintSwitches } from '../../demo/test-mint/switches.ts';
import { TestMint } from '../../demo/test-mint.ts';
import { type Config, readConfig } from '../../src/config.ts';
import type { Database } from '../../src/database/database.ts';
import { openLog } from '../../src/log.ts';
import { type Service, type Surroundings, startService } from '../../src/service.ts';
import { createTestDatabase } from './database.ts';
import { startMint } from './mints.ts';
import { NO_LIMITS } from './no-limits.ts';
import { type ApiAnswer, request, TestWallet } from './wallet.ts';

export const TEST_JWT_SECRET = 'a secret for tests, of 32 letters and more';

export const TEST_TREASURY_SECRET = 'another secret for tests, just as long';

export interface WorldOptions {
  mint?: TestMintOptions;
  env?: Record<string, string>;
  surroundings?: Surroundings;
}

/** A service on its real port, with a test mint as its default mint and a database of its own. */
export interface World {
  service: Service;
  mint: TestMint;
  database: Database;
  base: string;
  newWallet(): TestWallet;
  askInvoice(wallet: TestWallet, amountSat: number): Promise<{ pr: string; verify: string }>;
  pay(wallet: TestWallet, amountSat: number): Promise<{ pr: string; verify: string }>;
  close(): Promise<void>;
}

export async function openWorld(options: WorldOptions = {}): Promise<World> {
  const mint = await TestMint.start(options.mint);
  const testDatabase = await createTestDatabase();
  const database = await testDatabase.open();
  const service = await startService(testConfig(mint.url, options.env), {
    database,
    log: openLog('silent'),
    pollGapMs: 0,
    ...withTestClock(options.surroundings),
  });
  const base = service.publicOrigin;
  const askInvoice = async (wallet: TestWallet, amountSat: number) => {
    const path = `/.well-known/lnurlp/${wallet.npub}?amount=${amountSat * 1000}`;
    const { body } = await request(service.url, path);
    if (body.pr === undefined) {
      throw new Error(`no invoice: ${JSON.stringify(body)}`);
    }
    return body;
  };
  return {
    service,
    mint,
    database,
    base,
    newWallet: () => new TestWallet(base, options.surroundings?.clock),
    askInvoice,
    pay: async (wallet, amountSat) => {
      const invoice = await askInvoice(wallet, amountSat);
      mint.pay(invoice.pr);
      return invoice;
    },
    close: async () => {
      await service.stop();
      await database.close();
      await testDatabase.drop();
      await mint.close();
    },
  };
}

/** Opens a world for the tests of a file, and closes it when they are done. */
export function useWorld(options: WorldOptions = {}): World {
  const world: Partial<World> = {};
  beforeAll(async () => {
    Object.assign(world, await openWorld(options));
  });
  afterAll(() => world.close?.());
  return world as World;
}

/** A test's clock drives ages and intervals alike, unless the test gives each its own. */
function withTestClock(surroundings: Surroundings = {}): Surroundings {
  const { clock } = surroundings;
  return clock === undefined ? surroundings : { monotonicMs: clock, ...surroundings };
}

/** A configuration for a service beside a test mint, on a port that the system chooses. */
export function testConfig(mintUrl: string, env: Record<string, string> = {}): Config {
  return readConfig({
    PORT: '0',
    DEFAULT_MINT_URL: mintUrl,
    ALLOW_PRIVATE_NETWORKS: 'true',
    JWT_SECRET: TEST_JWT_SECRET,
    TREASURY_SECRET: TEST_TREASURY_SECRET,
    STOP_DELAY_SECONDS: '0',
    ...NO_LIMITS,
    ...env,
  });
}

/**
 * Starts one more service over a world's database, with settings of its own. The caller stops it,
 * before the world closes.
 */
export function startBeside(
  world: World,
  env: Record<string, string>,
  surroundings: Surroundings = {},
): Promise<Service> {
  return startService(testConfig(world.mint.url, env), {
    database: world.database,
    log: openLog('silent'),
    ...withTestClock(surroundings),
  });
}

/** {@link startBeside}, until the test ends. */
export async function serveBeside(
  world: World,
  env: Record<string, string>,
  surroundings: Surroundings = {},
): Promise<Service> {
  const service = await startBeside(world, env, surroundings);
  onTestFinished(() => service.stop());
  return service;
}

/**
 * Starts a mint and makes it the wallet's choice, for as long as the test runs: its switches, its
 * counts and what may be sent to its socket belong to this wallet alone.
 */
export async function giveOwnMint(
  wallet: TestWallet,
  switches: Partial<TestMintSwitches> = {},
): Promise<TestMint> {
  const mint = await startMint(switches);
  const { status, body } = await chooseMint(wallet, mint.url);
  if (status !== 200) {
    throw new Error(`the mint was not accepted: ${JSON.stringify(body)}`);
  }
  return mint;
}

/** Pays an invoice that the query asks for, until the recipient's wallet has the update. @returns the invoice */
export async function receive(world: World, wallet: TestWallet, query: string): Promise<string> {
  const socket = await wallet.openSocket();
  const { body } = await request(world.base, `/.well-known/lnurlp/${wallet.npub}?${query}`);
  world.mint.pay(body.pr);
  await socket.next();
  await socket.close();
  return body.pr;
}

/** A user's wish for another mint (spec.md section 4.4). */
export function chooseMint(wallet: TestWallet, mintUrl: string): Promise<ApiAnswer> {
  return wallet.send('PATCH', '/api/v2/user/mint', { mint_url: mintUrl });
}

/** A user's wish for locked quotes, or not (spec.md section 4.5). */
export function setLock(wallet: TestWallet, lockQuotes: boolean): Promise<ApiAnswer> {
  return wallet.send('PATCH', '/api/v2/user/lock', { lockQuotes });
}
