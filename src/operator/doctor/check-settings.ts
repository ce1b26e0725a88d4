import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { diff } from 'node:util';
import type { Config } from '../../config.ts';
import { readGeneratedSecret } from '../../database/data-dir.ts';
import { OperatorError } from '../../errors.ts';
// biome-ignore lint/style/noRestrictedImports: the service does not start with a logo that this function rejects
import { loadBranding } from '../../http/web/branding.ts';
import { type Finding, ok, problem, warning } from './finding.ts';

export type SettingsCheckInput = Pick<
  Config,
  'publicOrigins' | 'trustProxy' | 'allowPrivateNetworks' | 'defaultMintUrl' | 'zaps'
> & { configuredCount: number; secrets: readonly string[] };

export function* checkSettings(settings: SettingsCheckInput): Generator<Finding> {
  const { configuredCount, publicOrigins, trustProxy, allowPrivateNetworks, secrets } = settings;
  const { defaultMintUrl, zaps } = settings;
  yield ok('settings.valid', `${configuredCount} settings are set, and all are valid`);
  if (publicOrigins.length === 0) {
    yield warning(
      'settings.public_origins',
      'PUBLIC_ORIGINS is not set: Lightning addresses end in @localhost, which only this machine can pay',
      'Set PUBLIC_ORIGINS=https://<your domain>.',
    );
  }
  for (const origin of publicOrigins.filter((url) => url.startsWith('http:'))) {
    yield warning(
      'settings.public_origins',
      `PUBLIC_ORIGINS: ${origin} has no TLS, and most wallets do not pay without it`,
      'Put a reverse proxy with a certificate in front, and use the https:// origin.',
    );
  }
  // nutpost itself speaks plain HTTP, so an https origin requires a reverse proxy.
  if (publicOrigins.some((url) => url.startsWith('https:')) && trustProxy.length === 0) {
    yield warning(
      'settings.trust_proxy',
      'TRUST_PROXY is not set: all clients behind the reverse proxy count as one address and share its rate limits',
      'Set TRUST_PROXY to the address from which the proxy connects; the log of the service shows it.',
    );
  }
  if (allowPrivateNetworks) {
    yield warning(
      'settings.private_networks',
      'ALLOW_PRIVATE_NETWORKS=true: any client can make this service connect to private networks',
      'Remove it if untrusted clients can reach the service; it is for development.',
    );
  }
  if (zaps.secretKey !== null && zaps.mints?.includes(defaultMintUrl) === false) {
    yield warning(
      'settings.zap_mints',
      'ZAP_MINTS does not name DEFAULT_MINT_URL: users of the default mint cannot receive zaps',
      'Add the default mint to ZAP_MINTS, unless this is intended.',
    );
  }
  if (new Set(secrets).size < secrets.length) {
    yield warning(
      'settings.shared_secret',
      'One secret is used for several purposes',
      'Give JWT_SECRET, TREASURY_SECRET and ZAP_SECRET_KEY different values, so that a leak of one does not expose the others.',
    );
  }
}

const SETTING_PREFIX = /^(?:LIMIT|ZAP|USERNAME|TREASURY|LNURL|JWT|METRICS|TRUST|PUBLIC)_/;

/** Finds environment variables that have no effect and look like misspelt settings. */
export function* checkUnknownSettings(
  variableNames: readonly string[],
  settingNames: readonly string[],
): Generator<Finding> {
  for (const name of variableNames.filter((variable) => !settingNames.includes(variable))) {
    const upper = name.toUpperCase();
    const similar = settingNames.find((setting) => isLikelyMisspelling(upper, setting));
    if (similar !== undefined || SETTING_PREFIX.test(upper)) {
      yield warning(
        'settings.unknown',
        `${name} is not a setting of nutpost and has no effect`,
        similar === undefined
          ? 'Remove it; .env.example lists all settings.'
          : `Did you mean ${similar}? Otherwise remove it.`,
      );
    }
  }
}

/** A wrong letter is one removed and one added letter. A short name can be another program's: `POST`, not `PORT`. */
function isLikelyMisspelling(name: string, setting: string): boolean {
  const editCount = diff(name, setting).filter(([operation]) => operation !== 0).length;
  return name.length >= 8 && editCount <= 2;
}

const NO_START = 'The service does not start until this is fixed.';

/** Checks files, apart from the database, without which the service does not start. */
export async function checkFiles({ database, jwtSecret, web }: Config): Promise<Finding[]> {
  return [
    ...(await findStartFailure('settings.jwt_secret', () => {
      const isGenerated = database.kind === 'sqlite' && jwtSecret === null;
      return isGenerated && readGeneratedSecret(database.dataDir, 'jwt-secret');
    })),
    ...(await findStartFailure('settings.logo', () => web && loadBranding(web))),
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
  const servers: Server[] = [];
  for (const endpoint of endpoints) {
    const server = createServer();
    servers.push(server);
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
    }
  }
  // Only now, because both ports may be the same.
  for (const server of servers) {
    server.close();
  }
  return findings;
}
