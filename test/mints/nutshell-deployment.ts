import { startNutshell } from '../../scripts/nutshell.ts';
import { createLogger } from '../../src/log.ts';
import { type ServiceOverrides, startService } from '../../src/service.ts';
import { createTestDatabase } from '../helpers/database/test-database.ts';
import { startFaultInjectingMintProxy } from '../helpers/mints/fault-injecting-mint-proxy.ts';
import type { TestQuoteSocket } from '../helpers/recipients/recipient-client.ts';
import { createTestConfig } from '../helpers/service/test-environment.ts';

export type NutshellDeployment = Awaited<ReturnType<typeof startNutshellDeployment>>;

/**
 * Starts the mint and the service. Starts a proxy between them if `shouldBlock` or `shouldDropResponse` is given.
 *
 * @param options.shouldBlock selects paths to which the proxy responds with 404
 * @param options.shouldDropResponse selects paths whose request the mint handles, and whose response the proxy drops
 */
export async function startNutshellDeployment(options: {
  nutshellEnv: Record<string, string>;
  env?: Record<string, string>;
  overrides?: ServiceOverrides;
  shouldBlock?: (path: string) => boolean;
  shouldDropResponse?: (path: string) => boolean;
}) {
  const { shouldBlock, shouldDropResponse, env = {}, overrides = {} } = options;
  const cleanup = new AsyncDisposableStack();
  const nutshell = await startNutshell({ env: options.nutshellEnv });
  cleanup.defer(() => nutshell.stop());
  let mintUrl = nutshell.url;
  if (shouldBlock !== undefined || shouldDropResponse !== undefined) {
    const proxy = await startFaultInjectingMintProxy(
      mintUrl,
      shouldBlock ?? (() => false),
      shouldDropResponse,
    );
    cleanup.defer(() => proxy.close());
    mintUrl = proxy.url;
  }
  const testDatabase = await createTestDatabase();
  cleanup.defer(() => testDatabase.drop());
  const database = await testDatabase.open();
  cleanup.defer(() => database.close());
  const service = await startService(createTestConfig(mintUrl, env), {
    database,
    log: createLogger('silent'),
    ...overrides,
  });
  cleanup.defer(() => service.stop());
  return {
    mintUrl,
    directMintUrl: nutshell.url,
    service,
    database,
    [Symbol.asyncDispose]: () => cleanup.disposeAsync(),
  };
}

export async function waitForUpdate(socket: TestQuoteSocket): Promise<string> {
  const { type, payload } = await socket.nextMessage();
  if (type !== 'update') {
    throw new Error(`the socket received '${type}' instead of an update`);
  }
  return payload.quoteId;
}
