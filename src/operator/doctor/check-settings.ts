import { once } from 'node:events';
import { createServer } from 'node:net';
import { diff } from 'node:util';
import type { Config } from '../../config.ts';
import { readGeneratedSecret } from '../../database/data-dir.ts';
import { OperatorError } from '../../errors.ts';
// biome-ignore lint/style/noRestrictedImports: at start, the service reads the logo with this function, too
import { loadBranding } from '../../http/web/branding.ts';
import { type Finding, ok, problem, warning } from './finding.ts';

export type SettingsCheckInput = Pick<
  Config,
  | 'publicOrigins'
  | 'trustProxy'
  | 'allowPrivateNetworks'
  | 'defaultMintUrl'
  | 'zaps'
  | 'notifySecretKey'
> & { configuredCount: number; secrets: readonly string[] };

export function* checkSettings(settings: SettingsCheckInput): Generator<Finding> {
  const { configuredCount, publicOrigins, trustProxy, allowPrivateNetworks, secrets } = settings;
  const { defaultMintUrl, zaps, notifySecretKey } = settings;
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
  if (notifySecretKey !== null && notifySecretKey !== zaps.secretKey && zaps.relays.length === 0) {
    yield warning(
      'settings.notify_relays',
      'ZAP_RELAYS is not set: no Nostr messages are sent, because the relays of recipients are looked up there',
      'Set it to relays that store relay lists, or remove NOTIFY_SECRET_KEY.',
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

const SETTING_PREFIX = /^(?:LIMIT|ZAP|USERNAME|TREASURY|LNURL|JWT|METRICS|TRUST|PUBLIC)_/;

/** Ignores short names, which can be another program's: `POST` is not a misspelt `PORT`. */
function isLikelyMisspelling(name: string, setting: string): boolean {
  const editCount = diff(name, setting).filter(([operation]) => operation !== 0).length;
  // A wrong letter counts twice: one letter removed and one added.
  return name.length >= 8 && editCount <= 2;
}

const NO_START_ADVICE = 'The service does not start until this is fixed.';

/** Checks the files, except the database, without which the service does not start. */
export async function checkFiles({ database, jwtSecret, web }: Config): Promise<Finding[]> {
  const findings: Finding[] = [];
  if (database.kind === 'sqlite' && jwtSecret === null) {
    const readSecret = () => readGeneratedSecret(database.dataDir, 'jwt-secret');
    findings.push(...(await findStartFailure('settings.jwt_secret', readSecret)));
  }
  if (web !== null) {
    findings.push(...(await findStartFailure('settings.logo', () => loadBranding(web))));
  }
  return findings;
}

/** Runs a step of the service's start. Returns a problem if it throws an OperatorError, otherwise nothing. */
export async function findStartFailure(
  check: Finding['check'],
  runStep: () => unknown,
): Promise<Finding[]> {
  try {
    await runStep();
    return [];
  } catch (error) {
    if (!(error instanceof OperatorError)) {
      throw error;
    }
    return [problem(check, error.message, NO_START_ADVICE)];
  }
}

/** @param isServiceStopped if false, a port in use is no problem, because the service itself may use it */
export async function checkPorts(
  { host, port, metrics }: Config,
  isServiceStopped: boolean,
): Promise<Finding[]> {
  const endpoints = [
    { names: 'HOST, PORT', host, port },
    ...(metrics === null ? [] : [{ names: 'METRICS_HOST, METRICS_PORT', ...metrics }]),
  ];
  const findings: Finding[] = [];
  // Closed together at the end, so that the same port in both settings is a problem.
  using servers = new DisposableStack();
  for (const endpoint of endpoints) {
    const server = servers.adopt(createServer(), (created) => created.close());
    try {
      await once(server.listen({ host: endpoint.host, port: endpoint.port }), 'listening');
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code !== 'EADDRINUSE' || isServiceStopped) {
        findings.push(
          problem(
            'settings.port',
            `${endpoint.names}: cannot listen on ${endpoint.host}:${endpoint.port} (${message})`,
            `Choose an address of this machine, and a port from 1024 on that no other program uses. ${NO_START_ADVICE}`,
          ),
        );
      }
    }
  }
  return findings;
}
