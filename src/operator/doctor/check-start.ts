import { once } from 'node:events';
import { createServer } from 'node:net';
import type { Config } from '../../config.ts';
import { readGeneratedSecret } from '../../database/generated-secret.ts';
import { OperatorError } from '../../errors.ts';
// biome-ignore lint/style/noRestrictedImports: the service does not start with a logo that this function rejects
import { loadBranding } from '../../http/web/branding.ts';
import type { Store } from '../../store.ts';
import { findTreasuryProblem } from '../../usernames/treasury.ts';
import { createTreasurySealer } from '../../usernames/usernames-module.ts';
import { type Finding, FindingList } from './finding.ts';

const NO_START = 'The service does not start until this is fixed.';

/** Checks files, apart from the database, without which the service does not start. */
export async function checkFiles(config: Config): Promise<Finding[]> {
  const { database, jwtSecret, web } = config;
  const list = new FindingList();
  if (database.kind === 'sqlite' && jwtSecret === null) {
    const { dataDir } = database;
    await reportFailure(list, 'settings.jwt_secret', () =>
      readGeneratedSecret(dataDir, 'jwt-secret'),
    );
  }
  if (web !== null) {
    await reportFailure(list, 'settings.logo', () => loadBranding(web));
  }
  return list.findings;
}

/** Checks that the treasury secret is readable and opens the stored ecash. */
export async function checkTreasurySecret(config: Config, store: Store): Promise<Finding[]> {
  const list = new FindingList();
  await reportFailure(list, 'settings.treasury_secret', async () => {
    const problem = await findTreasuryProblem(createTreasurySealer(config), store);
    if (problem !== null) {
      throw new OperatorError(`${problem.message}. ${problem.advice}`);
    }
  });
  return list.findings;
}

/**
 * Checks that the service can listen on its ports.
 *
 * @param isServiceRunning whether the service itself may use the ports; null if unknown
 */
export async function checkPorts(
  { host, port, metrics }: Config,
  isServiceRunning: boolean | null,
): Promise<Finding[]> {
  const list = new FindingList();
  const endpoints = [
    { names: 'HOST, PORT', host, port },
    ...(metrics === null ? [] : [{ names: 'METRICS_HOST, METRICS_PORT', ...metrics }]),
  ];
  for (const endpoint of endpoints) {
    const error = await tryToListen(endpoint);
    if (error !== null && (error.code !== 'EADDRINUSE' || isServiceRunning === false)) {
      list.problem(
        'settings.port',
        `${endpoint.names}: cannot listen on ${endpoint.host}:${endpoint.port} (${error.message})`,
        `Choose an address of this machine, and a port from 1024 on that no other program uses. ${NO_START}`,
      );
    }
  }
  return list.findings;
}

async function reportFailure(
  list: FindingList,
  check: Finding['check'],
  load: () => unknown,
): Promise<void> {
  try {
    await load();
  } catch (error) {
    if (!(error instanceof OperatorError)) {
      throw error;
    }
    list.problem(check, error.message, NO_START);
  }
}

async function tryToListen(endpoint: {
  host: string;
  port: number;
}): Promise<NodeJS.ErrnoException | null> {
  const server = createServer();
  try {
    await once(server.listen({ host: endpoint.host, port: endpoint.port }), 'listening');
    return null;
  } catch (error) {
    return error as NodeJS.ErrnoException;
  } finally {
    server.close();
  }
}
