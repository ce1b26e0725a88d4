import { once } from 'node:events';
import { createServer } from 'node:net';
import type { Config } from '../../config.ts';
import { readGeneratedSecret } from '../../database/data-dir.ts';
import { OperatorError } from '../../errors.ts';
// biome-ignore lint/style/noRestrictedImports: the service does not start with a logo that this function rejects
import { loadBranding } from '../../http/web/branding.ts';
import { type Finding, problem } from './finding.ts';

const NO_START = 'The service does not start until this is fixed.';

/** Checks files, apart from the database, without which the service does not start. */
export async function checkFiles({ database, jwtSecret, web }: Config): Promise<Finding[]> {
  return [
    ...(database.kind === 'sqlite' && jwtSecret === null
      ? await findStartFailure('settings.jwt_secret', () =>
          readGeneratedSecret(database.dataDir, 'jwt-secret'),
        )
      : []),
    ...(web === null ? [] : await findStartFailure('settings.logo', () => loadBranding(web))),
  ];
}

export async function findStartFailure(
  check: Finding['check'],
  load: () => unknown,
): Promise<Finding[]> {
  try {
    await load();
    return [];
  } catch (error) {
    if (!(error instanceof OperatorError)) {
      throw error;
    }
    return [problem(check, error.message, NO_START)];
  }
}

/** @param isServiceStopped if false, the service itself may use the ports */
export async function checkPorts(
  { host, port, metrics }: Config,
  isServiceStopped: boolean,
): Promise<Finding[]> {
  const endpoints = [
    { names: 'HOST, PORT', host, port },
    ...(metrics === null ? [] : [{ names: 'METRICS_HOST, METRICS_PORT', ...metrics }]),
  ];
  const findings: Finding[] = [];
  for (const endpoint of endpoints) {
    const server = createServer();
    try {
      await once(server.listen({ host: endpoint.host, port: endpoint.port }), 'listening');
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code !== 'EADDRINUSE' || isServiceStopped) {
        findings.push(
          problem(
            'settings.port',
            `${endpoint.names}: cannot listen on ${endpoint.host}:${endpoint.port} (${message})`,
            `Choose an address of this machine, and a port from 1024 on that no other program uses. ${NO_START}`,
          ),
        );
      }
    } finally {
      server.close();
    }
  }
  return findings;
}
