import { isIP } from 'node:net';
import { z } from 'zod';
import packageJson from '../package.json' with { type: 'json' };
import { normaliseMintUrl } from './net/server-url.ts';
import { parseSecretKey } from './nostr/keys.ts';
import { MSAT_PER_SAT, narrowSendableRange } from './quotes/lnurl-pay.ts';
import { parseUsername } from './recipients/lightning-address.ts';
import { redact } from './redaction.ts';
import { normaliseRelayUrl, stripQuery } from './zaps/relay-url.ts';

/** Supervisors usually allow 10 s for the whole shutdown. */
const MAX_STOP_DELAY_SECONDS = 5;

const DEFAULT_HOST = '127.0.0.1';

/** 1,000 BTC: far above any Lightning payment, far below the largest safe integer. */
const SENDABLE_UPPER_BOUND_MSAT = 100_000_000_000_000;

/** 1 BTC: a higher price is a mistake. */
const MAX_USERNAME_PRICE_SAT = 100_000_000;

const MAX_USERNAME_GRACE_DAYS = 3_650;

const DAY_MS = 24 * 60 * 60_000;

/** Every LNURL discovery response contains the text. */
const MAX_LNURL_TEXT_LENGTH = 200;

/** A zap request and a percent-encoded comment (up to 12 characters per code point) must fit into one URL. */
const MAX_COMMENT_LENGTH = 2_000;

const RELAY_URL_PROBLEM =
  'must be a wss:// URL of a public host without user, on port 443 or from 1024 on' +
  ' (ws:// and private hosts need ALLOW_PRIVATE_NETWORKS=true)';

/** A longer name breaks the header of the pages on a phone. */
const MAX_SITE_NAME_LENGTH = 40;

/** Every zap receipt is sent to all of these relays. */
const MAX_ZAP_RELAYS = 20;

const MAX_LIMIT_SETTING = 1_000_000;

/** The key length of HS256 in bytes. Shorter secrets can be guessed. */
const MIN_SECRET_LENGTH = 32;

export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  /** One line per invalid setting, starting with its name. */
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

export type EnvironmentVariables = Readonly<Record<string, string | undefined>>;

/** The operator's settings, read once at start and documented in `.env.example`. */
export type Config = Readonly<ReturnType<typeof toConfig>>;

/** The settings that commands need. A command may run in a shell without the other settings of the service. */
export type CommandConfig = Pick<Config, 'database' | 'treasurySecret' | 'allowPrivateNetworks'> & {
  readonly usernames: Omit<Config['usernames'], 'mintUrl'>;
};

/** Parses environment variables. Throws ConfigError with all missing and invalid settings. */
export function readConfig(env: EnvironmentVariables = process.env): Config {
  return Object.freeze(toConfig(parseSettings(env, environmentSchema)));
}

/** Like {@link readConfig}, but does not require `DEFAULT_MINT_URL`. */
export function readCommandConfig(env: EnvironmentVariables = process.env): CommandConfig {
  const settings = parseSettings(env, (allowPrivateNetworks) =>
    environmentSchema(allowPrivateNetworks).partial({ DEFAULT_MINT_URL: true }),
  );
  return toConfig({ ...settings, DEFAULT_MINT_URL: settings.DEFAULT_MINT_URL ?? '' });
}

function parseSettings<Parsed extends Omit<Settings, 'DEFAULT_MINT_URL'>>(
  env: EnvironmentVariables,
  createSchema: (allowPrivateNetworks: boolean) => z.ZodType<Parsed>,
): Parsed {
  const variables = normaliseVariables(env);
  const problems = Object.entries(variables).flatMap(([name, value]) => {
    const problem = findTextProblem(value);
    return problem === null ? [] : [`${name} ${problem}`];
  });
  if (problems.length > 0) {
    throw new ConfigError(problems);
  }
  const allowPrivateNetworks = variables['ALLOW_PRIVATE_NETWORKS'] === 'true';
  const parsed = createSchema(allowPrivateNetworks).safeParse(variables);
  if (!parsed.success) {
    throw new ConfigError(
      parsed.error.issues.map(({ path, message }) => redact(`${path.join('.')} ${message}`)),
    );
  }
  const conflicts = findConflicts(parsed.data);
  if (conflicts.length > 0) {
    throw new ConfigError(conflicts);
  }
  return parsed.data;
}

/** Returns the settings that are not empty, without white space around them: files with CRLF add `\r` to each value. */
function normaliseVariables(env: EnvironmentVariables): Record<string, string> {
  const names = listNonEmptyVariables(env).filter((name) => SETTING_NAMES.includes(name));
  return Object.fromEntries(names.map((name) => [name, env[name]?.trim() ?? '']));
}

/** Returns why a value cannot be what the operator means, whatever its setting; null if there is no such reason. */
function findTextProblem(value: string): string | null {
  if (/^(["']).*\1(?:\s+#.*)?$/s.test(value)) {
    return 'must not be in quotes: Docker and other programs that read the file keep them as part of the value';
  }
  return /\p{Cc}/u.test(value) ? 'must not contain line breaks or control characters' : null;
}

/** Returns the names of all non-empty variables, including those that are not settings. */
export function listNonEmptyVariables(env: EnvironmentVariables = process.env): string[] {
  return Object.keys(env).filter((name) => env[name]?.trim());
}

/** Whether npm started this process. If so, Ctrl-C sends two signals: one from the terminal, one forwarded by npm. */
export function isRunByNpm(env: EnvironmentVariables = process.env): boolean {
  return env['npm_lifecycle_event'] !== undefined;
}

/** Returns `JOURNAL_STREAM`, in which systemd names the journal's connection; null if systemd did not start this process. */
export function readJournalStream(env: EnvironmentVariables = process.env): string | null {
  return env['JOURNAL_STREAM'] ?? null;
}

type Settings = z.output<ReturnType<typeof environmentSchema>>;

function toConfig(settings: Settings) {
  return {
    host: settings.HOST,
    port: settings.PORT,
    /** The first origin is the canonical one. Empty: the service uses its local URL. */
    publicOrigins: settings.PUBLIC_ORIGINS,
    /** IP addresses and CIDRs. */
    trustProxy: settings.TRUST_PROXY,
    database:
      settings.DATABASE_URL === undefined
        ? ({ kind: 'sqlite', dataDir: settings.DATA_DIR } as const)
        : ({
            kind: 'postgres',
            url: settings.DATABASE_URL,
            listenUrl: settings.DATABASE_LISTEN_URL,
          } as const),
    /** Null: the service generates a secret in the data directory. PostgreSQL requires the setting. */
    jwtSecret: settings.JWT_SECRET ?? null,
    jwtSecretPrevious: settings.JWT_SECRET_PREVIOUS ?? null,
    defaultMintUrl: settings.DEFAULT_MINT_URL,
    defaultLockQuotes: settings.DEFAULT_LOCK_QUOTES,
    minSendableMsat: settings.MIN_SENDABLE_MSAT,
    maxSendableMsat: settings.MAX_SENDABLE_MSAT,
    /** The `text/plain` entry of LNURL metadata; `{address}` is replaced by the Lightning address. */
    lnurlText: settings.LNURL_TEXT,
    /** 0: payers cannot send comments. */
    maxCommentLength: settings.MAX_COMMENT_LENGTH,
    zaps: {
      /** Hex; null: zaps are disabled. */
      secretKey: settings.ZAP_SECRET_KEY ?? null,
      /** Normalised. They receive all zap receipts, and the service finds recipients' relay lists there (NIP-65). */
      relays: [...new Set(settings.ZAP_RELAYS)],
      /** Normalised. Null: payments at all mints get zap receipts. */
      mints: settings.ZAP_MINTS ?? null,
    },
    usernames: {
      /** 0: usernames are free. Null: usernames are not for sale. */
      priceSat: settings.USERNAME_PRICE_SAT ?? null,
      mintUrl: settings.USERNAME_MINT_URL ?? settings.DEFAULT_MINT_URL,
      reserved: settings.USERNAME_RESERVED,
      graceMs: settings.USERNAME_GRACE_DAYS * DAY_MS,
    },
    /** Null: generated in the data directory with SQLite, not needed with PostgreSQL. */
    treasurySecret: settings.TREASURY_SECRET ?? null,
    allowPrivateNetworks: settings.ALLOW_PRIVATE_NETWORKS,
    limits: {
      requestsPerMinute: settings.LIMIT_REQUESTS,
      invoicesPerMinute: settings.LIMIT_INVOICES,
      settingChangesPerMinute: settings.LIMIT_CHANGES,
      usernamePurchasesPerMinute: settings.LIMIT_PURCHASES,
      maxOpenInvoicesPerRecipient: settings.LIMIT_OPEN_INVOICES_PER_RECIPIENT,
      maxOpenInvoicesPerAddress: settings.LIMIT_OPEN_INVOICES_PER_ADDRESS,
      maxOpenInvoicesPerRecipientAndAddress: settings.LIMIT_OPEN_INVOICES_PER_PAIR,
      maxDailyQuotesPerAddress: settings.LIMIT_DAILY_QUOTES_PER_ADDRESS,
      maxDailyQuotesPerRecipientAndAddress: settings.LIMIT_DAILY_QUOTES_PER_PAIR,
      maxSockets: settings.LIMIT_SOCKETS,
      maxSocketsPerAddress: settings.LIMIT_SOCKETS_PER_ADDRESS,
      maxSocketsPerPubkey: settings.LIMIT_SOCKETS_PER_KEY,
      socketMessagesPerSecond: settings.LIMIT_SOCKET_MESSAGES,
      zapReceiptsPerRecipientPerHour: settings.LIMIT_ZAP_RECEIPTS,
    },
    /** Null: no web pages. */
    web: settings.WEB_PAGES
      ? {
          siteName: settings.SITE_NAME,
          /** An image file; null: the default logo. */
          logoFile: settings.SITE_LOGO ?? null,
          /** `#rrggbb` */
          accentColor: settings.SITE_ACCENT_COLOR,
          /** Remote signers connect through it (NIP-46). */
          signerRelay: settings.SIGNER_RELAY,
        }
      : null,
    metrics:
      settings.METRICS_PORT === undefined
        ? null
        : { host: settings.METRICS_HOST, port: settings.METRICS_PORT },
    logLevel: settings.LOG_LEVEL,
    logFormat: settings.LOG_FORMAT,
    stopDelayMs: settings.STOP_DELAY_SECONDS * 1_000,
  };
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
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (!(value >= min && value <= max)) {
      context.addIssue(`must be a whole number from ${min} to ${max}${describeInput(text)}`);
    }
    return value;
  });

/** In a password that is not encoded, these characters would end the user's part of the URL: `@`, `/`, `?`, `#`. */
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
  .min(MIN_SECRET_LENGTH, { error: `must have at least ${MIN_SECRET_LENGTH} characters` });

/** A text that is stored as `parse` returns it. If `parse` returns null, the text is invalid. */
const parsedSetting = (parse: (text: string) => string | null, problem: string) =>
  z.string().transform((text, context) => {
    const value = parse(text);
    if (value === null) {
      context.addIssue(problem);
    }
    return value ?? '';
  });

const commaSeparatedSetting = z.string().transform((text) =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== ''),
);

/** A comma-separated list. `parse` and `problem` are those of {@link parsedSetting}, for each entry. */
const listSetting = (parse: (entry: string) => string | null, problem: string) =>
  commaSeparatedSetting.transform((entries, context) =>
    entries.map((entry, index) => {
      const value = parse(entry);
      if (value === null) {
        context.addIssue(`is invalid: ${describeListEntry(entry, index)} ${problem}`);
      }
      return value ?? '';
    }),
  );

/** 0: no limit. */
const limitSetting = (defaultValue: number) =>
  integerSetting(0, MAX_LIMIT_SETTING).default(defaultValue);

/** @param allowPrivateNetworks for development: mints and relays may have private addresses and no TLS */
function environmentSchema(allowPrivateNetworks: boolean) {
  const parseMintUrl = (text: string) =>
    normaliseMintUrl(text, { allowHttp: allowPrivateNetworks });
  const mintUrlProblem =
    'must be an https:// URL without user, query or fragment, on port 443 or from 1024 on' +
    ' (http:// needs ALLOW_PRIVATE_NETWORKS=true)';
  const mintUrl = parsedSetting(parseMintUrl, mintUrlProblem);
  return z.object({
    HOST: z.string().default(DEFAULT_HOST),
    PORT: integerSetting(0, 65_535).default(3_000),
    PUBLIC_ORIGINS: listSetting(
      parseOrigin,
      'must be an http(s) origin without a path, such as https://example.com',
    )
      .refine((origins) => origins.length > 0, { error: 'must name at least one origin' })
      .default([]),
    TRUST_PROXY: commaSeparatedSetting
      .refine((proxies) => proxies.every(isAddressOrCidr), {
        error: 'must be IP addresses or CIDRs separated by commas',
      })
      .refine((proxies) => !proxies.some((proxy) => proxy.endsWith('/0')), {
        error:
          'must not contain all addresses (/0), because every client could then forge its address. Name only your proxies',
      })
      .default([]),
    DATABASE_URL: postgresUrlSetting.optional(),
    DATABASE_LISTEN_URL: postgresUrlSetting.optional(),
    DATA_DIR: z
      .string()
      .regex(/^(?!~)(?!.*\s#)[^$]*$/, {
        error: 'must be a path without ~, $ and comments (#), which only a shell understands',
      })
      .default('./data'),
    JWT_SECRET: secretSetting.optional(),
    JWT_SECRET_PREVIOUS: secretSetting.optional(),
    DEFAULT_MINT_URL: z
      .string({ error: 'is required: the mint of users who have not chosen one' })
      .pipe(mintUrl),
    DEFAULT_LOCK_QUOTES: booleanSetting.default(false),
    MIN_SENDABLE_MSAT: integerSetting(1, SENDABLE_UPPER_BOUND_MSAT).default(1_000),
    MAX_SENDABLE_MSAT: integerSetting(MSAT_PER_SAT, SENDABLE_UPPER_BOUND_MSAT).default(
      1_000_000_000,
    ),
    LNURL_TEXT: z
      .string()
      .max(MAX_LNURL_TEXT_LENGTH, {
        error: `must have at most ${MAX_LNURL_TEXT_LENGTH} characters`,
      })
      .default('Payment to {address}'),
    // LUD-12 suggests the length of a tweet.
    MAX_COMMENT_LENGTH: integerSetting(0, MAX_COMMENT_LENGTH).default(255),
    ZAP_SECRET_KEY: parsedSetting(
      (text) => parseSecretKey(text.trim()),
      'must be a Nostr secret key: nsec1..., or 64 hexadecimal digits',
    ).optional(),
    ZAP_RELAYS: listSetting(
      (text) => normaliseRelayUrl(text, { allowPrivateNetworks }),
      RELAY_URL_PROBLEM,
    )
      .refine((relays) => relays.length <= MAX_ZAP_RELAYS, {
        error: `must name at most ${MAX_ZAP_RELAYS} relays`,
      })
      .default([]),
    ZAP_MINTS: listSetting(parseMintUrl, mintUrlProblem)
      .refine((mints) => mints.length > 0, { error: 'must name at least one mint' })
      .optional(),
    USERNAME_PRICE_SAT: integerSetting(0, MAX_USERNAME_PRICE_SAT).optional(),
    USERNAME_MINT_URL: mintUrl.optional(),
    USERNAME_RESERVED: listSetting(parseUsername, 'is not a valid username, so remove it').default(
      [],
    ),
    USERNAME_GRACE_DAYS: integerSetting(0, MAX_USERNAME_GRACE_DAYS).default(30),
    TREASURY_SECRET: secretSetting.optional(),
    ALLOW_PRIVATE_NETWORKS: booleanSetting.default(false),
    // Per minute and address. 200 wallets that poll every 5 s send 2,400; the rest is for CORS preflights and payers.
    // Verifying 6,000 signatures takes a twentieth of a core.
    LIMIT_REQUESTS: limitSetting(6_000),
    // 10 per second and address, because the server of a custodial wallet requests invoices for all of its users.
    LIMIT_INVOICES: limitSetting(600),
    LIMIT_CHANGES: limitSetting(300),
    // A purchase takes two requests. While the mint is slow, clients repeat the second one every few seconds.
    LIMIT_PURCHASES: limitSetting(120),
    // The limit per pair of recipient and address is a tenth of the recipient's limit, so one address cannot block a
    // recipient. It is a third of the limit per address.
    LIMIT_OPEN_INVOICES_PER_RECIPIENT: limitSetting(2_000),
    LIMIT_OPEN_INVOICES_PER_ADDRESS: limitSetting(300),
    LIMIT_OPEN_INVOICES_PER_PAIR: limitSetting(100),
    // A mint that reports every quote as paid fills the disk with payments that cost nothing. 5,000 a day from one
    // address are far more than a household pays, and less than 1 GB (docs/scaling.md).
    LIMIT_DAILY_QUOTES_PER_ADDRESS: limitSetting(5_000),
    LIMIT_DAILY_QUOTES_PER_PAIR: limitSetting(1_000),
    LIMIT_SOCKETS: limitSetting(40_000),
    LIMIT_SOCKETS_PER_ADDRESS: limitSetting(200),
    // Enough for all devices of a person, and some dead connections.
    LIMIT_SOCKETS_PER_KEY: limitSetting(20),
    LIMIT_SOCKET_MESSAGES: limitSetting(10),
    // Per hour and recipient. A popular stream gets a few hundred zaps an hour.
    LIMIT_ZAP_RECEIPTS: limitSetting(3_000),
    WEB_PAGES: booleanSetting.default(true),
    SITE_NAME: z
      .string()
      .max(MAX_SITE_NAME_LENGTH, {
        error: `must have at most ${MAX_SITE_NAME_LENGTH} characters`,
      })
      .default('nutpost'),
    SITE_LOGO: z.string().optional(),
    SITE_ACCENT_COLOR: z
      .string()
      .regex(/^#[0-9a-f]{6}$/i, { error: 'must be a color like #a34b0c' })
      .default('#a34b0c'),
    SIGNER_RELAY: parsedSetting(
      (text) => normaliseRelayUrl(text, { allowPrivateNetworks }),
      RELAY_URL_PROBLEM,
    ).default('wss://relay.nsec.app'),
    METRICS_HOST: z.string().default(DEFAULT_HOST),
    METRICS_PORT: integerSetting(0, 65_535).optional(),
    LOG_LEVEL: enumSetting(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default(
      'info',
    ),
    LOG_FORMAT: enumSetting(['auto', 'json', 'pretty']).default('auto'),
    // During this time, clients with an open connection receive a response with `Connection: close`.
    STOP_DELAY_SECONDS: integerSetting(0, MAX_STOP_DELAY_SECONDS).default(1),
  });
}

export const SETTING_NAMES: readonly string[] = Object.keys(environmentSchema(false).shape);

function findConflicts(settings: Omit<Settings, 'DEFAULT_MINT_URL'>): string[] {
  const { PORT, METRICS_PORT, HOST, METRICS_HOST, JWT_SECRET } = settings;
  const usesPostgres = settings.DATABASE_URL !== undefined;
  const sellsUsernames = (settings.USERNAME_PRICE_SAT ?? 0) > 0;
  const range = { minMsat: settings.MIN_SENDABLE_MSAT, maxMsat: settings.MAX_SENDABLE_MSAT };
  const conflicts = {
    'DATABASE_LISTEN_URL requires DATABASE_URL; without a connection pooler, set only DATABASE_URL':
      !usesPostgres && settings.DATABASE_LISTEN_URL !== undefined,
    'TREASURY_SECRET is required with DATABASE_URL if usernames have a price; use the same secret in every process':
      usesPostgres && sellsUsernames && settings.TREASURY_SECRET === undefined,
    'JWT_SECRET is required with DATABASE_URL; use the same secret in every process':
      usesPostgres && JWT_SECRET === undefined,
    'JWT_SECRET_PREVIOUS must differ from JWT_SECRET':
      JWT_SECRET !== undefined && JWT_SECRET === settings.JWT_SECRET_PREVIOUS,
    'METRICS_PORT must differ from PORT':
      PORT !== 0 && METRICS_PORT === PORT && doListenHostsOverlap(HOST, METRICS_HOST),
    'MIN_SENDABLE_MSAT must not exceed MAX_SENDABLE_MSAT, and the range between them must contain a whole sat':
      narrowSendableRange(range, null) === null,
  };
  return Object.entries(conflicts)
    .filter(([, isConflict]) => isConflict)
    .map(([problem]) => problem);
}

/** Whether servers that listen on these hosts cannot use the same port. */
function doListenHostsOverlap(one: string, other: string): boolean {
  const hosts = [one, other];
  const areBothIpv4 = hosts.every((host) => !host.includes(':'));
  return one === other || hosts.includes('::') || (hosts.includes('0.0.0.0') && areBothIpv4);
}

/** Quotes an invalid value, unless it is so long that it may be a secret. */
function describeInput(input: unknown): string {
  return typeof input === 'string' && input.length < MIN_SECRET_LENGTH ? ` (got '${input}')` : '';
}

/** Quotes the entry of a list, or returns its position if the entry may be a secret: long and not a URL. */
function describeListEntry(entry: string, index: number): string {
  const isPrintable = entry.includes('://') || entry.length < MIN_SECRET_LENGTH;
  return isPrintable ? `'${redact(stripQuery(entry))}'` : `entry ${index + 1}`;
}

function isAddressOrCidr(text: string): boolean {
  const [, address = '', prefix] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const version = isIP(address);
  const bits = version === 4 ? 32 : 128;
  return version !== 0 && (prefix === undefined || Number(prefix) <= bits);
}

function parseOrigin(text: string): string | null {
  const url = URL.parse(text);
  const isHttp = url?.protocol === 'https:' || url?.protocol === 'http:';
  const hasOnlyOrigin = url?.pathname === '/' && !/[?#@]/.test(text) && url.hostname !== '';
  return isHttp && hasOnlyOrigin ? url.origin : null;
}

export const VERSION: string = packageJson.version;
