import { afterAll, beforeAll, onTestFinished } from 'vitest';
import type { TestMintOptions } from '../../demo/test-mint/state.ts';
import type { TestMintSwitches } from '../../demo/test-mint/switches.ts';
import { TestMint } from '../../demo/test-mint.ts';
import { type Config, readConfig } from '../../src/config.ts';
import type { Database } from '../../src/database/database.ts';
import { createLogger } from '../../src/log.ts';
import { type Service, type ServiceOverrides, startService } from '../../src/service.ts';
import { createTestDatabase } from './database.ts';
import { NO_LIMITS } from './no-limits.ts';
import { startMint } from './start-test-mint.ts';
import { type ApiResponse, requestJson, TestWallet } from './test-wallet.ts';

export const TEST_JWT_SECRET = 'a secret for tests, of 32 letters and more';

export const TEST_TREASURY_SECRET = 'another secret for tests, just as long';

export interface TestEnvironmentOptions {
  mint?: TestMintOptions;
  env?: Record<string, string>;
  overrides?: ServiceOverrides;
}

/** A service on a real port, with a test mint as default mint and a separate database. */
export interface TestEnvironment {
  service: Service;
  mint: TestMint;
  database: Database;
  origin: string;
  newWallet(): TestWallet;
  requestInvoice(wallet: TestWallet, amountSat: number): Promise<{ pr: string; verify: string }>;
  requestAndPay(wallet: TestWallet, amountSat: number): Promise<{ pr: string; verify: string }>;
  close(): Promise<void>;
}

export async function createTestEnvironment(
  options: TestEnvironmentOptions = {},
): Promise<TestEnvironment> {
  const mint = await TestMint.start(options.mint);
  const testDatabase = await createTestDatabase();
  const database = await testDatabase.open();
  const service = await startService(testConfig(mint.url, options.env), {
    database,
    log: createLogger('silent'),
    pollIntervalMs: 0,
    ...withTestClock(options.overrides),
  });
  const base = service.publicOrigin;
  const askInvoice = async (wallet: TestWallet, amountSat: number) => {
    const path = `/.well-known/lnurlp/${wallet.npub}?amount=${amountSat * 1000}`;
    const { body } = await requestJson(service.url, path);
    if (body.pr === undefined) {
      throw new Error(`no invoice: ${JSON.stringify(body)}`);
    }
    return body;
  };
  return {
    service,
    mint,
    database,
    origin: base,
    newWallet: () => new TestWallet(base, options.overrides?.clock),
    requestInvoice: askInvoice,
    requestAndPay: async (wallet, amountSat) => {
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

/** Creates an environment for the tests of a file, and closes it afterwards. */
export function useTestEnvironment(options: TestEnvironmentOptions = {}): TestEnvironment {
  const environment: Partial<TestEnvironment> = {};
  beforeAll(async () => {
    Object.assign(environment, await createTestEnvironment(options));
  });
  afterAll(() => environment.close?.());
  return environment as TestEnvironment;
}

/** Uses a test's clock as monotonic clock, too, unless the test passes both. */
function withTestClock(overrides: ServiceOverrides = {}): ServiceOverrides {
  const { clock } = overrides;
  return clock === undefined ? overrides : { monotonicMs: clock, ...overrides };
}

/** Returns a configuration for a service with a test mint, on a free port. */
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
 * Starts another service on an environment's database, with its own settings. The caller stops it
 * before the environment closes.
 */
export function startAdditionalService(
  environment: TestEnvironment,
  env: Record<string, string>,
  overrides: ServiceOverrides = {},
): Promise<Service> {
  return startService(testConfig(environment.mint.url, env), {
    database: environment.database,
    log: createLogger('silent'),
    ...withTestClock(overrides),
  });
}

/** {@link startAdditionalService}, stopped when the test ends. */
export async function useAdditionalService(
  environment: TestEnvironment,
  env: Record<string, string>,
  overrides: ServiceOverrides = {},
): Promise<Service> {
  const service = await startAdditionalService(environment, env, overrides);
  onTestFinished(() => service.stop());
  return service;
}

/**
 * Starts a mint for the duration of the test and sets it as the wallet's mint. Its switches, counts and
 * socket then affect only this wallet.
 */
export async function assignTestMint(
  wallet: TestWallet,
  switches: Partial<TestMintSwitches> = {},
): Promise<TestMint> {
  const mint = await startMint(switches);
  const { status, body } = await setMint(wallet, mint.url);
  if (status !== 200) {
    throw new Error(`the mint was not accepted: ${JSON.stringify(body)}`);
  }
  return mint;
}

/** Requests and pays an invoice, and waits for the update of the recipient's wallet. @returns the invoice */
export async function receivePayment(
  environment: TestEnvironment,
  wallet: TestWallet,
  query: string,
): Promise<string> {
  const socket = await wallet.openSocket();
  const { body } = await requestJson(
    environment.origin,
    `/.well-known/lnurlp/${wallet.npub}?${query}`,
  );
  environment.mint.pay(body.pr);
  await socket.nextMessage();
  await socket.close();
  return body.pr;
}

/** Sets the user's mint (spec.md section 4.4). */
export function setMint(wallet: TestWallet, mintUrl: string): Promise<ApiResponse> {
  return wallet.send('PATCH', '/api/v2/user/mint', { mint_url: mintUrl });
}

/** Turns quote locking on or off (spec.md section 4.5). */
export function setLockQuotes(wallet: TestWallet, lockQuotes: boolean): Promise<ApiResponse> {
  return wallet.send('PATCH', '/api/v2/user/lock', { lockQuotes });
}
