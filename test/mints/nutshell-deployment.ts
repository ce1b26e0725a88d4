import { startNutshell } from '../../scripts/nutshell.ts';
import type { Database } from '../../src/database/database.ts';
import { createLogger } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import { createTestDatabase } from '../helpers/database.ts';
import { startMintProxy } from '../helpers/mint-proxy.ts';
import { testConfig } from '../helpers/test-environment.ts';
import type { TestQuoteSocket } from '../helpers/test-wallet.ts';

/** A Nutshell mint, and a service that uses it. */
export interface NutshellDeployment extends AsyncDisposable {
  /** The mint's URL for the service, and its URL without the proxy. */
  mintUrl: string;
  directUrl: string;
  service: Service;
  database: Database;
}

/**
 * @param options.nutshell settings of the mint
 * @param options.env settings of the service
 * @param options.blocks paths to which a proxy responds with 404
 * @param options.loses paths whose responses a proxy loses after the mint did its work
 */
export async function startNutshellDeployment(options: {
  nutshell: Record<string, string>;
  env?: Record<string, string>;
  shouldBlock?: (path: string) => boolean;
  shouldDropResponse?: (path: string) => boolean;
}): Promise<NutshellDeployment> {
  const { shouldBlock, shouldDropResponse, env = {} } = options;
  const end = new AsyncDisposableStack();
  const nutshell = await startNutshell({ env: options.nutshell });
  end.defer(() => nutshell.stop());
  let mintUrl = nutshell.url;
  if (shouldBlock !== undefined || shouldDropResponse !== undefined) {
    const proxy = await startMintProxy(mintUrl, shouldBlock ?? (() => false), shouldDropResponse);
    end.defer(() => proxy.close());
    mintUrl = proxy.url;
  }
  const testDatabase = await createTestDatabase();
  end.defer(() => testDatabase.drop());
  const database = await testDatabase.open();
  end.defer(() => database.close());
  const service = await startService(testConfig(mintUrl, env), {
    database,
    log: createLogger('silent'),
  });
  end.defer(() => service.stop());
  const directUrl = nutshell.url;
  return { mintUrl, directUrl, service, database, [Symbol.asyncDispose]: () => end.disposeAsync() };
}

/** Waits for an `update`. @returns its quote id */
export async function waitForUpdate(socket: TestQuoteSocket): Promise<string> {
  const { type, payload } = await socket.nextMessage();
  if (type !== 'update') {
    throw new Error(`a socket received ${type}`);
  }
  return payload.quoteId;
}
