import { isIP } from 'node:net';
import { userInfo } from 'node:os';
import { z } from 'zod';
import { OperatorError } from './errors.ts';
import { parseAlertUrl } from './net/alert-target.ts';
import { normaliseMintUrl, normaliseServerUrl } from './net/server-url.ts';
import { parseSecretKey } from './nostr/keys.ts';
import { MSAT_PER_SAT, narrowSendableRange } from './quotes/lnurl-pay.ts';
import { parseUsername } from './recipients/lightning-address.ts';
import { redact } from './redaction.ts';
import { normaliseRelayUrl, stripQuery } from './relays/relay-url.ts';
import { readSettingsFile } from './settings-file.ts';

export type Config = Readonly<ReturnType<typeof buildConfig>>;

export type EnvironmentVariables = Readonly<Record<string, string | undefined>>;

/**
 * Reads the settings from environment variables, and from the file that NUTPOST_ENV names. A variable overrides a line of
 * the file.
 *
 * @throws ConfigError with all missing and invalid settings
 */
export function readConfig(
  variables: EnvironmentVariables = process.env,
  isMintRequired = true,
): Config {
  const env = addSettingsFile(variables);
  const { config, problems } = readSettings(env);
  if (isMintRequired && !env['DEFAULT_MINT_URL']?.trim()) {
    problems.push('DEFAULT_MINT_URL is required: the mint of users who have not chosen one');
  }
  const allProblems = problems.length > 0 ? problems : findConflicts(config, env);
  if (allProblems.length > 0) {
    throw new ConfigError(allProblems);
  }
  return Object.freeze(config);
}

/** Like {@link readConfig}, but DEFAULT_MINT_URL may be missing, as in a shell in which a command runs. */
export function readCommandConfig(variables?: EnvironmentVariables): Config {
  return readConfig(variables, false);
}

export class ConfigError extends OperatorError {
  /** One line per invalid setting, starting with its name. */
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

function buildConfig(read: ReadSetting) {
  const allowPrivateNetworks = read('ALLOW_PRIVATE_NETWORKS', booleanSetting.default(false));
  const parseMintUrl = (text: string) =>
    normaliseMintUrl(text, { allowHttp: allowPrivateNetworks });
  const mintUrlSetting = parsedSetting(parseMintUrl, MINT_URL_PROBLEM);
  const parseRelayUrl = (text: string) => normaliseRelayUrl(text, { allowPrivateNetworks });
  const relayUrlSetting = parsedSetting(parseRelayUrl, RELAY_URL_PROBLEM);
  const rateUrlRules = {
    maxLength: 512,
    scheme: 'http',
    allowInsecure: allowPrivateNetworks,
  } as const;
  const parseRateUrl = (text: string) => normaliseServerUrl(text, rateUrlRules) && text;
  // Empty only in the settings of a command, which does not use it.
  const defaultMintUrl = read('DEFAULT_MINT_URL', mintUrlSetting.default(''));
  const allowedMintsSetting = listSetting(parseMintUrl, MINT_URL_PROBLEM)
    // The account page shows all of them.
    .refine((mints) => mints.length <= 20, { error: 'must name at most 20 mints' });
  /** The only mints that users may choose. Null: any mint. */
  const allowedMints = read('ALLOWED_MINTS', allowedMintsSetting.nullable().default(null));
  const recipientsSetting = enumSetting(['everyone', 'members']).default('everyone');
  const membersOnly = read('RECIPIENTS', recipientsSetting) === 'members';
  const secretKeySetting = parsedSetting(parseSecretKey, SECRET_KEY_PROBLEM).nullable();
  const zapSecretKey = read('ZAP_SECRET_KEY', secretKeySetting.default(null));
  const databaseUrl = read('DATABASE_URL', postgresUrlSetting.optional());
  const listenUrl = read('DATABASE_LISTEN_URL', postgresUrlSetting.optional());
  const dataDir = read('DATA_DIR', pathSetting.default('./data'));
  const metricsHost = read('METRICS_HOST', z.string().default('127.0.0.1'));
  const metricsPort = read('METRICS_PORT', integerSetting(0, 65_535).optional());
  const hasWebPages = read('WEB_PAGES', booleanSetting.default(true));
  const web = {
    // A longer name breaks the header of the pages on a phone.
    siteName: read('SITE_NAME', textSetting(40).default('nutpost')),
    logoFile: read('SITE_LOGO', z.string().nullable().default(null)),
    accentColor: read('SITE_ACCENT_COLOR', colorSetting.default('#a34b0c')),
    amountsSat: read('SITE_AMOUNTS', amountsSetting.default([1_000, 5_000, 21_000, 100_000])),
    /** The account page offers these mints. */
    mints: read(
      'SITE_MINTS',
      listSetting(parseMintUrl, MINT_URL_PROBLEM)
        // More than a person would compare.
        .refine((mints) => mints.length <= 10, { error: 'must name at most 10 mints' })
        .default([])
        .transform((mints) => allowedMints ?? [...new Set([defaultMintUrl, ...mints])]),
    ),
    links: read('SITE_LINKS', listSetting(parseSiteLink, SITE_LINK_PROBLEM).default([])),
    /** Payment pages show the names in Nostr profiles. */
    hasProfiles: read('SITE_PROFILES', booleanSetting.default(true)),
    fiatCurrencies: read(
      'FIAT_CURRENCIES',
      listSetting(parseCurrency, 'is not the code of a currency, such as EUR')
        // More would push the button of the payment page off a phone's screen.
        .refine(({ length }) => length <= 3, 'must have at most three currencies')
        .default([]),
    ),
    /** May contain a key of the operator. */
    fiatRateUrl: read('FIAT_RATE_URL', parsedSetting(parseRateUrl, RATE_URL_PROBLEM).optional()),
    /** Remote signers connect through it (NIP-46). */
    signerRelay: read('SIGNER_RELAY', relayUrlSetting.default('wss://relay.nsec.app')),
  };
  return {
    host: read('HOST', z.string().default('127.0.0.1')),
    port: read('PORT', integerSetting(0, 65_535).default(3_000)),
    /** The first origin is the canonical one. Empty: the service uses its local URL. */
    publicOrigins: read(
      'PUBLIC_ORIGINS',
      listSetting(parseOrigin, 'must be an http(s) origin without a path').default([]),
    ),
    trustProxy: read(
      'TRUST_PROXY',
      listSetting(
        parseProxyRange,
        'must be an IP address or CIDR, and not /0: every client could then forge its address',
      ).default([]),
    ),
    database:
      databaseUrl === undefined
        ? ({ kind: 'sqlite', dataDir } as const)
        : ({ kind: 'postgres', url: databaseUrl, listenUrl, dataDir } as const),
    /** Null: the service generates it in the data directory. With PostgreSQL it is required. */
    jwtSecret: read('JWT_SECRET', secretSetting),
    jwtSecretPrevious: read('JWT_SECRET_PREVIOUS', secretSetting),
    defaultMintUrl,
    allowedMints,
    /** Whether only members can be paid. */
    membersOnly,
    defaultLockQuotes: read('DEFAULT_LOCK_QUOTES', booleanSetting.default(false)),
    minSendableMsat: read('MIN_SENDABLE_MSAT', integerSetting(1, MAX_MSAT).default(1_000)),
    maxSendableMsat: read(
      'MAX_SENDABLE_MSAT',
      integerSetting(MSAT_PER_SAT, MAX_MSAT).default(1_000_000_000),
    ),
    lnurlText: read('LNURL_TEXT', textSetting(200).default('Payment to {address}')),
    // 0: no comments. At the maximum, a comment (12 characters per code point) and a zap request still fit into a URL.
    maxCommentLength: read('MAX_COMMENT_LENGTH', integerSetting(0, 2_000).default(255)),
    zaps: {
      secretKey: zapSecretKey,
      /** These relays get all zap receipts. The service also looks there for relay lists of recipients (NIP-65). */
      relays: read(
        'ZAP_RELAYS',
        listSetting(parseRelayUrl, RELAY_URL_PROBLEM)
          .refine((relays) => relays.length <= 20, { error: 'must name at most 20 relays' })
          .default([]),
      ),
      /** The mints whose payments get zap receipts. Null: all mints. */
      mints: read(
        'ZAP_MINTS',
        listSetting(parseMintUrl, MINT_URL_PROBLEM).nullable().default(null),
      ),
    },
    usernames: {
      /** 0: free. Null: not for sale. The maximum is 1 BTC, because a higher price is a mistake. */
      priceSat: read('USERNAME_PRICE_SAT', integerSetting(0, 100_000_000).nullable().default(null)),
      mintUrl: read('USERNAME_MINT_URL', mintUrlSetting.default(defaultMintUrl)),
      reserved: read(
        'USERNAME_RESERVED',
        listSetting(parseUsername, 'is not a valid username, so remove it').default([]),
      ),
      membersOnly,
      graceMs: read('USERNAME_GRACE_DAYS', integerSetting(0, 3_650).default(30)) * 86_400_000,
    },
    /** Null: with SQLite, the service generates it in the data directory if usernames have a price. */
    treasurySecret: read('TREASURY_SECRET', secretSetting),
    /** Sends Nostr messages to recipients. */
    notifySecretKey: read('NOTIFY_SECRET_KEY', secretKeySetting.default(zapSecretKey)),
    hasNotifications: read('NOTIFICATIONS', booleanSetting.default(true)),
    allowPrivateNetworks,
    limits: {
      // 200 wallets at one address that poll every 5 s send 2,400; the rest is for CORS preflights and payers.
      requestsPerMinute: read('LIMIT_REQUESTS', limitSetting(6_000)),
      // The server of a custodial wallet requests invoices for all of its users.
      invoicesPerMinute: read('LIMIT_INVOICES', limitSetting(600)),
      settingChangesPerMinute: read('LIMIT_CHANGES', limitSetting(300)),
      usernamePurchasesPerMinute: read('LIMIT_PURCHASES', limitSetting(120)),
      maxOpenInvoicesPerRecipient: read('LIMIT_OPEN_INVOICES_PER_RECIPIENT', limitSetting(2_000)),
      maxOpenInvoicesPerAddress: read('LIMIT_OPEN_INVOICES_PER_ADDRESS', limitSetting(300)),
      // A twentieth of the recipient's limit, so that one address cannot block a recipient.
      maxOpenInvoicesPerRecipientAndAddress: read(
        'LIMIT_OPEN_INVOICES_PER_PAIR',
        limitSetting(100),
      ),
      maxSockets: read('LIMIT_SOCKETS', limitSetting(40_000)),
      maxSocketsPerAddress: read('LIMIT_SOCKETS_PER_ADDRESS', limitSetting(200)),
      // Enough for all devices of a person, and some dead connections.
      maxSocketsPerPubkey: read('LIMIT_SOCKETS_PER_KEY', limitSetting(20)),
      socketMessagesPerSecond: read('LIMIT_SOCKET_MESSAGES', limitSetting(10)),
      // A popular stream gets a few hundred zaps an hour.
      zapReceiptsPerRecipientPerHour: read('LIMIT_ZAP_RECEIPTS', limitSetting(3_000)),
    },
    web: hasWebPages ? web : null,
    metrics: metricsPort === undefined ? null : { host: metricsHost, port: metricsPort },
    /** Where the operator gets alerts. */
    alertTarget: read(
      'ALERT_URL',
      parsedSetting(parseAlertUrl, ALERT_URL_PROBLEM).nullable().default(null),
    ),
    logLevel: read(
      'LOG_LEVEL',
      enumSetting(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
    ),
    logFormat: read('LOG_FORMAT', enumSetting(['auto', 'json', 'pretty']).default('auto')),
    // Supervisors usually allow 10 s for the whole shutdown.
    stopDelayMs: read('STOP_DELAY_SECONDS', integerSetting(0, 5).default(1)) * 1_000,
  };
}

/** 1,000 BTC: far above any Lightning payment, far below the largest safe integer. */
const MAX_MSAT = 100_000_000_000_000;

/** The key length of HS256 in bytes. Shorter secrets can be guessed. */
const MIN_SECRET_LENGTH = 32;

const SECRET_KEY_PROBLEM = 'must be a Nostr secret key: nsec1..., or 64 hexadecimal digits';

const MINT_URL_PROBLEM =
  'must be an https:// URL without user, query or fragment, on port 443 or from 1024 on' +
  ' (http:// needs ALLOW_PRIVATE_NETWORKS=true)';

const RATE_URL_PROBLEM =
  'must be an https:// URL without user, on port 443 or from 1024 on (http:// needs ALLOW_PRIVATE_NETWORKS=true)';

const ALERT_URL_PROBLEM =
  'must be the https:// or http:// URL of a webhook, or ntfy+https://<server>/<topic>';

const SITE_LINK_PROBLEM =
  'must be a label of up to 40 characters and an https: or mailto: URL or a path, such as Terms=/terms';

const RELAY_URL_PROBLEM =
  'must be a wss:// URL of a public host without user, on port 443 or from 1024 on' +
  ' (ws:// and private hosts need ALLOW_PRIVATE_NETWORKS=true)';

function addSettingsFile(env: EnvironmentVariables): EnvironmentVariables {
  const file = env['NUTPOST_ENV'];
  return file ? { ...readSettingsFile(file), ...env } : env;
}

/** Reads a setting. If it is invalid, records a problem and returns undefined; the settings must not be used then. */
type ReadSetting = <Value>(name: string, schema: z.ZodType<Value>) => Value;

function readSettings(env: EnvironmentVariables) {
  const names: string[] = [];
  const problems: string[] = [];
  const read: ReadSetting = <Value>(name: string, schema: z.ZodType<Value>) => {
    names.push(name);
    // Empty variables count as missing. Files with CRLF add `\r` to each value.
    const text = env[name]?.trim() || undefined;
    const textProblem = text === undefined ? null : findTextProblem(text);
    if (textProblem !== null) {
      problems.push(`${name} ${textProblem}`);
      return undefined as Value;
    }
    const { data, error } = schema.safeParse(text);
    problems.push(...(error?.issues.map(({ message }) => redact(`${name} ${message}`)) ?? []));
    return data as Value;
  };
  return { config: buildConfig(read), names, problems };
}

/** Returns why a value is invalid for any setting; null if it is not. */
function findTextProblem(value: string): string | null {
  if (/^(["']).*\1(?:\s+#.*)?$/s.test(value)) {
    return 'must not be in quotes: Docker and other programs that read the file keep them as part of the value';
  }
  return /\p{Cc}/u.test(value) ? 'must not contain line breaks or control characters' : null;
}

export function listNonEmptyVariables(env: EnvironmentVariables = process.env): string[] {
  const variables = addSettingsFile(env);
  return Object.keys(variables).filter((name) => variables[name]?.trim());
}

/** Returns whether npm started this process. npm forwards signals, also those that the terminal sends to both. */
export function isRunByNpm(env: EnvironmentVariables = process.env): boolean {
  return env['npm_lifecycle_event'] !== undefined;
}

/** Returns the user who runs this process, also through sudo. A container may give its user no name, but only a number. */
export function readSystemUser(env: EnvironmentVariables = process.env): string {
  try {
    return env['SUDO_USER'] ?? userInfo().username;
  } catch {
    return `uid ${process.getuid?.()}`;
  }
}

/** Returns the id that systemd gave to this process's connection to the journal; null if systemd did not start it. */
export function readJournalStream(env: EnvironmentVariables = process.env): string | null {
  return env['JOURNAL_STREAM'] ?? null;
}

/** Returns the environment of this process for a program that it starts, with the password for PostgreSQL's programs. */
export function withPostgresPassword(password: string): EnvironmentVariables {
  return password === '' ? process.env : { ...process.env, PGPASSWORD: password };
}

const enumSetting = <const Values extends readonly string[]>(values: Values) =>
  z.enum(values, {
    error: ({ input }) => `must be one of ${values.join(', ')}${describeInput(input)}`,
  });

const booleanSetting = z
  .enum(['true', 'false'], {
    error: ({ input }) => `must be true or false${describeInput(input)}`,
  })
  .transform((value) => value === 'true');

const integerSetting = (min: number, max: number) =>
  z.string().transform((text, context) => {
    const value = Number(text);
    const isValid = /^\d{1,15}$/.test(text) && value >= min && value <= max;
    if (!isValid) {
      context.addIssue(`must be a whole number from ${min} to ${max}${describeInput(text)}`);
    }
    return value;
  });

/** Matches no URL with a password in which `@`, `/`, `?` or `#` is not encoded: they would end the password. */
const POSTGRES_URL =
  /^postgres(?:ql)?:\/\/(?:[^@/?#]*@)?[^@/?#]*(?:\/[^@?#]*)?(?:\?[^@#]*=[^#]*)?$/;

const postgresUrlSetting = z
  .string()
  .refine((text) => POSTGRES_URL.test(text) && !/%(?![\da-f]{2})/i.test(text), {
    error:
      'must be a postgres:// URL. Encode special characters in the password: @ as %40, # as %23, / as %2F, ? as %3F, % as %25',
  });

const secretSetting = z
  .string()
  .min(MIN_SECRET_LENGTH, { error: `must have at least ${MIN_SECRET_LENGTH} characters` })
  .nullable()
  .default(null);

const pathSetting = z.string().regex(/^(?!~)(?!.*\s#)[^$]*$/, {
  error: 'must be a path without ~, $ and comments (#), which only a shell understands',
});

const colorSetting = z.string().regex(/^#[0-9a-f]{6}$/i, { error: 'must be a color like #a34b0c' });

/** A setting that `parse` normalises. `parse` returns null for an invalid text, which may be a secret. */
const parsedSetting = <Value>(parse: (text: string) => Value | null, problem: string) =>
  z.string().transform((text, context) => {
    const value = parse(text);
    if (value === null) {
      context.addIssue(problem);
    }
    // With an issue, the value is not used.
    return value as Value;
  });

/** Like {@link parsedSetting}, for each entry of a comma-separated list. Omits repeated values. */
const listSetting = <Value>(parse: (entry: string) => Value | null, problem: string) =>
  z.string().transform((text, context) => {
    const entries = text
      .split(',')
      .map((entry) => entry.trim())
      .filter(Boolean);
    const values = new Set<Value>();
    for (const [index, entry] of entries.entries()) {
      const value = parse(entry);
      if (value === null) {
        context.addIssue(`is invalid: ${describeListEntry(entry, index)} ${problem}`);
      } else {
        values.add(value);
      }
    }
    if (entries.length === 0) {
      context.addIssue('must have at least one entry');
    }
    return [...values];
  });

const amountsSetting = listSetting(
  (entry) => (/^[1-9]\d{0,14}$/.test(entry) ? Number(entry) : null),
  'is not a whole number of sats',
)
  // One or two are no choice, and more than five buttons do not fit beside each other.
  .refine(({ length }) => length >= 3 && length <= 5, 'must have three to five amounts');

/** 0: no limit. */
const limitSetting = (defaultValue: number) => integerSetting(0, 1_000_000).default(defaultValue);

const textSetting = (maxLength: number) =>
  z.string().max(maxLength, { error: `must have at most ${maxLength} characters` });

function findConflicts(config: Config, env: EnvironmentVariables): string[] {
  const { database, jwtSecret } = config;
  const usesPostgres = database.kind === 'postgres';
  const hasUsernamePrice = (config.usernames.priceSat ?? 0) > 0;
  const range = { minMsat: config.minSendableMsat, maxMsat: config.maxSendableMsat };
  const allowsDefaultMint = config.allowedMints?.includes(config.defaultMintUrl) ?? true;
  // Each problem, and whether the settings have it.
  const conflicts = {
    'DATABASE_LISTEN_URL requires DATABASE_URL; without a connection pooler, set only DATABASE_URL':
      !usesPostgres && Boolean(env['DATABASE_LISTEN_URL']?.trim()),
    'TREASURY_SECRET is required with DATABASE_URL if usernames have a price; use the same secret in every process':
      usesPostgres && hasUsernamePrice && config.treasurySecret === null,
    'JWT_SECRET is required with DATABASE_URL; use the same secret in every process':
      usesPostgres && jwtSecret === null,
    'ALLOWED_MINTS must contain DEFAULT_MINT_URL':
      config.defaultMintUrl !== '' && !allowsDefaultMint,
    'USERNAME_PRICE_SAT must be 0 or unset with RECIPIENTS=members, because the names of members cost nothing':
      config.membersOnly && hasUsernamePrice,
    'FIAT_CURRENCIES and FIAT_RATE_URL need each other; set both or neither':
      !env['FIAT_CURRENCIES'] !== !env['FIAT_RATE_URL'],
    'JWT_SECRET_PREVIOUS must differ from JWT_SECRET':
      jwtSecret !== null && jwtSecret === config.jwtSecretPrevious,
    'MIN_SENDABLE_MSAT must not exceed MAX_SENDABLE_MSAT, and the range between them must contain a whole sat':
      narrowSendableRange(range, null) === null,
  };
  return Object.entries(conflicts)
    .filter(([, isConflict]) => isConflict)
    .map(([problem]) => problem);
}

/** Quotes short values only, because a long one may be a secret. */
function describeInput(input: unknown): string {
  return typeof input === 'string' && input.length < MIN_SECRET_LENGTH ? ` (got '${input}')` : '';
}

/** Names the position of an entry that may be a secret. */
function describeListEntry(entry: string, index: number): string {
  const isPrintable = entry.includes('://') || entry.length < MIN_SECRET_LENGTH;
  return isPrintable ? `'${redact(stripQuery(entry))}'` : `entry ${index + 1}`;
}

function parseProxyRange(text: string): string | null {
  const [, address = '', prefix] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const addressBits = isIP(address) === 4 ? 32 : 128;
  const prefixBits = Number(prefix ?? addressBits);
  const isRange = isIP(address) !== 0 && prefixBits > 0 && prefixBits <= addressBits;
  return isRange ? text : null;
}

function parseSiteLink(text: string): { label: string; href: string } | null {
  const [, label = '', href = ''] = /^([^=]{1,40}?)\s*=\s*(\S+)$/.exec(text) ?? [];
  const isPath = /^\/(?![/\\])/.test(href);
  const isUrl = /^(?:https:\/\/|mailto:)/i.test(href) && URL.canParse(href);
  return isPath || isUrl ? { label, href } : null;
}

const parseCurrency = (text: string) =>
  Intl.supportedValuesOf('currency').includes(text) ? text : null;

function parseOrigin(text: string): string | null {
  const url = URL.parse(text);
  const isHttp = url?.protocol === 'https:' || url?.protocol === 'http:';
  const hasOnlyOrigin = url?.pathname === '/' && !/[?#@]/.test(text) && url.hostname !== '';
  return isHttp && hasOnlyOrigin ? url.origin : null;
}

/** The settings that {@link buildConfig} reads, whatever their values are. */
export const SETTING_NAMES: readonly string[] = readSettings({}).names;
