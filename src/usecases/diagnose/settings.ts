import { type Finding, ok, problem, warning } from '../../domain/finding.ts';
import type { UnknownSetting } from '../../domain/unknown-settings.ts';

/** What is checked of settings that are valid one by one. */
export interface SettingsToCheck {
  /** How many have a value. */
  givenCount: number;
  /** Empty if none were given. */
  publicOrigins: readonly string[];
  trustProxy: readonly string[];
  allowPrivateNetworks: boolean;
  /** The secrets that were given: of JWTs, of the treasury and of zaps. */
  secrets: readonly string[];
}

/** Checks valid settings for what is probably not meant. */
export function checkSettings(settings: SettingsToCheck): Finding[] {
  const { givenCount, publicOrigins, trustProxy, allowPrivateNetworks, secrets } = settings;
  const findings = [ok('settings.valid', `${givenCount} settings are given, and all are valid`)];
  if (publicOrigins.length === 0) {
    findings.push(
      warning(
        'settings.public_origins',
        'PUBLIC_ORIGINS is not set: Lightning addresses end in @localhost, which only this machine can pay',
        'Set PUBLIC_ORIGINS=https://<your domain>.',
      ),
    );
  }
  for (const origin of publicOrigins.filter((each) => each.startsWith('http:'))) {
    findings.push(
      warning(
        'settings.public_origins',
        `PUBLIC_ORIGINS: ${origin} has no TLS, and most wallets refuse to pay to it`,
        'Put a reverse proxy with a certificate in front, and use the https:// origin.',
      ),
    );
  }
  // nutpost itself speaks plain HTTP, so an https origin means a proxy.
  if (publicOrigins.some((each) => each.startsWith('https:')) && trustProxy.length === 0) {
    findings.push(
      warning(
        'settings.trust_proxy',
        'TRUST_PROXY is not set: all clients that come through the reverse proxy count as one address and share its rate limits',
        'Set TRUST_PROXY to the address from which the proxy connects; the log of the service names it.',
      ),
    );
  }
  if (allowPrivateNetworks) {
    findings.push(
      warning(
        'settings.private_networks',
        'ALLOW_PRIVATE_NETWORKS=true: anybody can make this service connect to private networks',
        'Remove it if strangers can reach the service; it is for development.',
      ),
    );
  }
  if (new Set(secrets).size < secrets.length) {
    findings.push(
      warning(
        'settings.shared_secret',
        'One secret is used for several purposes',
        'Give JWT_SECRET, TREASURY_SECRET and ZAP_SECRET_KEY different values, so that a leak of one does not expose the others.',
      ),
    );
  }
  return findings;
}

/** @param problems one line for each invalid setting, in the words of the start */
export function invalidSettings(problems: readonly string[]): Finding[] {
  return problems.map((what) =>
    problem(
      'settings.invalid',
      what,
      'The service does not start until this is corrected; nothing else was checked.',
    ),
  );
}

/** Environment variables that look like settings and have no effect. */
export function unknownSettingFindings(unknown: readonly UnknownSetting[]): Finding[] {
  return unknown.map(({ name, suggestion }) =>
    warning(
      'settings.unknown',
      `${name} is not a setting of nutpost and has no effect`,
      suggestion === null
        ? 'Remove it; .env.example lists all settings.'
        : `Did you mean ${suggestion}? Otherwise remove it.`,
    ),
  );
}
