import { type Finding, note, ok, problem, warning } from '../../domain/finding.ts';
import type { UnknownSetting } from '../../domain/unknown-settings.ts';

/** What is worth a look of settings that a service can start with. */
export interface SettingsToCheck {
  /** How many are given. */
  givenCount: number;
  unknown: readonly UnknownSetting[];
  /** Empty: none were given. */
  publicOrigins: readonly string[];
  allowPrivateNetworks: boolean;
  hasZapKey: boolean;
  zapRelays: readonly string[];
  hasPreviousJwtSecret: boolean;
  /** One text that is more than one secret. */
  isSecretShared: boolean;
  /** Why a secret in the data directory cannot be used: a sentence each, without its full stop. */
  secretTroubles: readonly string[];
}

/** Looks at settings that are right one by one. */
export function checkSettings(settings: SettingsToCheck): Finding[] {
  return [
    settings.givenCount === 1
      ? ok('settings.read', 'One setting is given, and it is understood')
      : ok('settings.read', `${settings.givenCount} settings are given, and all are understood`),
    ...settings.unknown.map(unknown),
    ...publicOrigins(settings),
    ...(settings.allowPrivateNetworks ? [PRIVATE_NETWORKS] : []),
    ...(settings.isSecretShared ? [SHARED_SECRET] : []),
    ...settings.secretTroubles.map(secretTrouble),
    ...(settings.hasPreviousJwtSecret ? [PREVIOUS_SECRET] : []),
    ...zaps(settings),
  ];
}

/** Settings that no service can start with, each in the words of the start. */
export function wrongSettings(problems: readonly string[]): Finding[] {
  return problems.map((what) => ({
    level: 'problem',
    code: 'settings.wrong',
    what,
    advice:
      'Without this the service does not start. The rest is looked at once the settings are right.',
  }));
}

/** Names that nobody reads. */
export function unknown({ name, meant }: UnknownSetting): Finding {
  return warning(
    'settings.unknown',
    `${name} is no setting of nutpost, and nobody reads it`,
    meant === null
      ? 'Remove it; .env.example has all the names.'
      : `Did you mean ${meant}? Else remove it.`,
  );
}

function secretTrouble(trouble: string): Finding {
  return problem(
    'settings.secret',
    trouble,
    'Without it the service does not start. A jwt-secret that is removed is made again; a treasury-secret that is lost takes what names earned with it.',
  );
}

const PRIVATE_NETWORKS = warning(
  'settings.private_networks',
  'ALLOW_PRIVATE_NETWORKS=true: strangers can make this service connect to private networks',
  'Take it away where strangers reach the service; it is for development.',
);

const SHARED_SECRET = warning(
  'settings.shared_secret',
  'One secret is given for several purposes',
  'Give JWT_SECRET, TREASURY_SECRET and ZAP_SECRET_KEY a secret each: who learns one then has no other.',
);

const PREVIOUS_SECRET = note(
  'settings.previous_secret',
  'JWT_SECRET_PREVIOUS is given: tokens of the secret before are accepted',
  'Take it away half an hour after the change of JWT_SECRET.',
);

function publicOrigins({ publicOrigins: origins }: SettingsToCheck): Finding[] {
  if (origins.length === 0) {
    return [
      warning(
        'settings.no_public_origin',
        'PUBLIC_ORIGINS is not given: Lightning addresses end in @localhost, which nobody else can pay',
        'Set PUBLIC_ORIGINS=https://<your domain>.',
      ),
    ];
  }
  return origins
    .filter((origin) => new URL(origin).protocol === 'http:')
    .map((origin) =>
      warning(
        'settings.plain_origin',
        `${origin} is without TLS: payers’ wallets want https`,
        'Put a reverse proxy with a certificate in front, and name the https:// origin.',
      ),
    );
}

function zaps({ hasZapKey, zapRelays }: SettingsToCheck): Finding[] {
  if (!hasZapKey) {
    return [note('settings.no_zaps', 'ZAP_SECRET_KEY is not given: payments are no zaps')];
  }
  return zapRelays.length > 0
    ? []
    : [
        note(
          'settings.no_zap_relays',
          'ZAP_RELAYS is not given: receipts of zaps go to the relays that payers name, and nowhere else',
        ),
      ];
}
