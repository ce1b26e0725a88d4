import { startNutshell } from '../../scripts/nutshell.ts';
import type { Database } from '../../src/database/database.ts';
import { openLog } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import { createTestDatabase } from '../helpers/database.ts';
import { startMintProxy } from '../helpers/mint-proxy.ts';
import type { TestSocket } from '../helpers/wallet.ts';
import { testConfig } from '../helpers/world.ts';

/** A Nutshell mint, and a service that uses it. */
export interface NutshellSite extends AsyncDisposable {
  /** The mint as the service knows it, and without its proxy. */
  mintUrl: string;
  directUrl: string;
  service: Service;
  database: Database;
}

/**
 * @param options.nutshell settings of the mint
 * @param options.env settings of the service
 * @param options.blocks paths that a proxy answers with 404
 * @param options.loses paths whose responses a proxy loses after the mint did its work
 */
export async function openNutshellSite(options: {
  nutshell: Record<string, string>;
  env?: Record<string, string>;
  blocks?: (path: string) => boolean;
  loses?: (path: string) => boolean;
}): Promise<NutshellSite> {
  const { blocks, loses, env = {} } = options;
  const end = new AsyncDisposableStack();
  const nutshell = await startNutshell({ env: options.nutshell });
  end.defer(() => nutshell.stop());
  let mintUrl = nutshell.url;
  if (blocks !== undefined || loses !== undefined) {
    const proxy = await startMintProxy(mintUrl, blocks ?? (() => false), loses);
    end.defer(() => proxy.close());
    mintUrl = proxy.url;
  }
  const testDatabase = await createTestDatabase();
  end.defer(() => testDatabase.drop());
  const database = await testDatabase.open();
  end.defer(() => database.close());
  const service = await startService(testConfig(mintUrl, env), {
    database,
    log: openLog('silent'),
  });
  end.defer(() => service.stop());
  const directUrl = nutshell.url;
  return { mintUrl, directUrl, service, database, [Symbol.asyncDispose]: () => end.disposeAsync() };
}

/** Waits for an `update`. @returns its quote id */
export async function nextUpdate(socket: TestSocket): Promise<string> {
  const { type, payload } = await socket.next();
  if (type !== 'update') {
    throw new Error(`a socket received ${type}`);
  }
  return payload.quoteId;
}
