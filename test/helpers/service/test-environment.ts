import { afterAll, beforeAll, onTestFinished } from 'vitest';
import type { TestMintOptions } from '../../../demo/test-mint/state.ts';
import type { TestMintSwitches } from '../../../demo/test-mint/switches.ts';
import { TestMint } from '../../../demo/test-mint.ts';
import { type Config, readConfig } from '../../../src/config.ts';
import type { Database } from '../../../src/database/database.ts';
import { createLogger } from '../../../src/log.ts';
import { type Service, type ServiceOverrides, startService } from '../../../src/service.ts';
import { createTestDatabase } from '../database/test-database.ts';
import { startTestMint } from '../mints/start-test-mint.ts';
import { type ApiResponse, RecipientClient, requestJson } from '../recipients/recipient-client.ts';
import { DISABLED_LIMITS_ENV } from './disabled-limits.ts';

export const TEST_JWT_SECRET = 'a secret for tests, of 32 letters and more';

export const TEST_TREASURY_SECRET = 'another secret for tests, just as long';

export interface TestEnvironmentOptions {
  mint?: TestMintOptions;
  env?: Record<string, string>;
  overrides?: ServiceOverrides;
}

/** A service that listens on a real port, its database, and a test mint, which is the service's default mint. */
export interface TestEnvironment {
  service: Service;
  mint: TestMint;
  database: Database;
  origin: string;
  newWallet(): RecipientClient;
  requestInvoice(
    wallet: RecipientClient,
    amountSat: number,
  ): Promise<{ pr: string; verify: string }>;
  close(): Promise<void>;
}

export async function createTestEnvironment(
  options: TestEnvironmentOptions = {},
): Promise<TestEnvironment> {
  const mint = await TestMint.start(options.mint);
  const testDatabase = await createTestDatabase();
  const database = await testDatabase.open();
  const service = await startService(createTestConfig(mint.url, options.env), {
    database,
    log: createLogger('silent'),
    pollIntervalMs: 0,
    ...withMonotonicTestClock(options.overrides),
  });
  const origin = service.publicOrigin;
  const requestInvoice = async (wallet: RecipientClient, amountSat: number) => {
    const path = `/.well-known/lnurlp/${wallet.npub}?amount=${amountSat * 1000}`;
    const { body } = await requestJson(service.url, path);
    if (body.pr === undefined) {
      throw new Error(`the service returned no invoice: ${JSON.stringify(body)}`);
    }
    return body;
  };
  return {
    service,
    mint,
    database,
    origin,
    newWallet: () => new RecipientClient(origin, options.overrides?.clock),
    requestInvoice,
    close: async () => {
      await service.stop();
      await database.close();
      await testDatabase.drop();
      await mint.close();
    },
  };
}

export function useTestEnvironment(options: TestEnvironmentOptions = {}): TestEnvironment {
  const environment: Partial<TestEnvironment> = {};
  beforeAll(async () => {
    Object.assign(environment, await createTestEnvironment(options));
  });
  afterAll(() => environment.close?.());
  return environment as TestEnvironment;
}

/** If a test overrides the wall clock, also overrides the monotonic clock with it by default. */
function withMonotonicTestClock(overrides: ServiceOverrides = {}): ServiceOverrides {
  const { clock } = overrides;
  return clock === undefined ? overrides : { monotonicMs: clock, ...overrides };
}

/** Returns the configuration of a service that listens on a free port and has no limits for clients. */
export function createTestConfig(mintUrl: string, env: Record<string, string> = {}): Config {
  return readConfig({
    PORT: '0',
    DEFAULT_MINT_URL: mintUrl,
    ALLOW_PRIVATE_NETWORKS: 'true',
    JWT_SECRET: TEST_JWT_SECRET,
    TREASURY_SECRET: TEST_TREASURY_SECRET,
    STOP_DELAY_SECONDS: '0',
    ...DISABLED_LIMITS_ENV,
    ...env,
  });
}

/** Starts another service with the environment's database and mint. The caller must stop it. */
export function startAdditionalService(
  environment: TestEnvironment,
  env: Record<string, string>,
  overrides: ServiceOverrides = {},
): Promise<Service> {
  return startService(createTestConfig(environment.mint.url, env), {
    database: environment.database,
    log: createLogger('silent'),
    ...withMonotonicTestClock(overrides),
  });
}

export async function useAdditionalService(
  environment: TestEnvironment,
  env: Record<string, string>,
  overrides: ServiceOverrides = {},
): Promise<Service> {
  const service = await startAdditionalService(environment, env, overrides);
  onTestFinished(() => service.stop());
  return service;
}

export async function assignNewTestMint(
  wallet: RecipientClient,
  switches: Partial<TestMintSwitches> = {},
): Promise<TestMint> {
  const mint = await startTestMint(switches);
  const { status, body } = await setMint(wallet, mint.url);
  if (status !== 200) {
    throw new Error(`the service rejected the mint: ${JSON.stringify(body)}`);
  }
  return mint;
}

/** Pays an invoice, and waits until the recipient's wallet is notified. @returns the invoice */
export async function receivePayment(
  environment: TestEnvironment,
  wallet: RecipientClient,
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

export function setMint(wallet: RecipientClient, mintUrl: string): Promise<ApiResponse> {
  return wallet.send('PATCH', '/api/v2/user/mint', { mint_url: mintUrl });
}

export function setLockQuotes(wallet: RecipientClient, lockQuotes: boolean): Promise<ApiResponse> {
  return wallet.send('PATCH', '/api/v2/user/lock', { lockQuotes });
}
