import { type Finding, ok, warning } from './finding.ts';

/** Prefixes that only settings of nutpost have. */
const OWN_PREFIX = /^(?:LIMIT|ZAP|USERNAME|TREASURY|LNURL|JWT|METRICS|TRUST|PUBLIC)_/;

/** Shorter names are too similar to variables of other programs: `HOST` and `POST` differ by one letter. */
const MIN_SIMILAR_LENGTH = 8;

/** Letters that may differ between a misspelt name and the setting that was meant. */
const MAX_EDITS = 2;

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

/**
 * Finds environment variables that look like settings and have no effect: their name is that of a setting
 * misspelt, or starts with a prefix of ours.
 *
 * @param names the names of all environment variables
 * @param known the names of all settings
 */
export function checkUnknownSettings(
  names: readonly string[],
  known: readonly string[],
): Finding[] {
  return names
    .filter((name) => !known.includes(name))
    .flatMap((name) => {
      const upper = name.toUpperCase();
      const similar = known.find((setting) => isSimilar(upper, setting));
      const advice =
        similar === undefined
          ? 'Remove it; .env.example lists all settings.'
          : `Did you mean ${similar}? Otherwise remove it.`;
      const what = `${name} is not a setting of nutpost and has no effect`;
      const looksLikeOurs = similar !== undefined || OWN_PREFIX.test(upper);
      return looksLikeOurs ? [warning('settings.unknown', what, advice)] : [];
    });
}

function isSimilar(name: string, setting: string): boolean {
  return name.length >= MIN_SIMILAR_LENGTH && editDistance(name, setting) <= MAX_EDITS;
}

/** The Levenshtein distance: letters to insert, delete or replace. Computed row by row. */
function editDistance(one: string, other: string): number {
  let previous = Array.from({ length: other.length + 1 }, (_, column) => column);
  for (const [row, letter] of [...one].entries()) {
    const current = [row + 1];
    for (const [column, otherLetter] of [...other].entries()) {
      const replaced = (previous[column] ?? 0) + (letter === otherLetter ? 0 : 1);
      const deleted = (previous[column + 1] ?? 0) + 1;
      const inserted = (current[column] ?? 0) + 1;
      current.push(Math.min(replaced, deleted, inserted));
    }
    previous = current;
  }
  return previous.at(-1) ?? 0;
}
