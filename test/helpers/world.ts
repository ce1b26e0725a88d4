import type { TestMintOptions } from '../../demo/test-mint/state.ts';
import { TestMint } from '../../demo/test-mint.ts';
import { type Config, readConfig } from '../../src/config.ts';
import { openLog } from '../../src/log.ts';
import { type Service, type Surroundings, startService } from '../../src/service.ts';
import type { Database } from '../../src/store/database.ts';
import { createTestDatabase } from './database.ts';
import { NO_LIMITS } from './no-limits.ts';
import { request, TestWallet } from './wallet.ts';

/** The secret that tests sign JWTs with. */
export const TEST_JWT_SECRET = 'a secret for tests, of 32 letters and more';

/** The secret that encrypts what tests earn. */
export const TEST_TREASURY_SECRET = 'another secret for tests, just as long';

/** Polls follow each other without the pause that a real mint needs. */
const NO_POLL_GAP_MS = 0;

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
  /** The public origin of the service. */
  base: string;
  /** A new recipient. */
  newWallet(): TestWallet;
  /** A payer's request for an invoice. */
  askInvoice(wallet: TestWallet, amountSat: number): Promise<{ pr: string; verify: string }>;
  /** An invoice, and its payment at the mint. */
  pay(wallet: TestWallet, amountSat: number): Promise<{ pr: string; verify: string }>;
  /** Ends it all. */
  close(): Promise<void>;
}

/** Starts a world. */
export async function openWorld(options: WorldOptions = {}): Promise<World> {
  const mint = await TestMint.start(options.mint);
  const testDatabase = await createTestDatabase();
  const database = await testDatabase.open();
  const service = await startService(testConfig(mint.url, options.env), {
    database,
    log: openLog('silent'),
    pollGapMs: NO_POLL_GAP_MS,
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

/** A test's clock drives ages and intervals alike, unless the test gives each its own. */
export function withTestClock(surroundings: Surroundings = {}): Surroundings {
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
