import type { InboundLimits } from './http/rate-limits.ts';
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { z } from 'zod';
import { normaliseMintUrl } from './mints/mint-url.ts';
import { readSecretKey } from './nostr/keys.ts';
import { sendableRange } from './quotes/lnurl.ts';
import { parseUsername } from './recipients/address.ts';
import { redact } from './redaction.ts';
import { normaliseRelayUrl, withoutQuery } from './zaps/relay-url.ts';

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

const LOG_FORMATS = ['auto', 'json', 'pretty'] as const;

/** The rest of a stop has to fit into the 10 s that supervisors usually allow. */
const MAX_STOP_DELAY_SECONDS = 5;

/** This machine only. */
const DEFAULT_HOST = '127.0.0.1';

/** One sat: mints have no smaller unit. */
const SMALLEST_MAX_MSAT = 1_000;

/** 1,000 BTC: far above any Lightning payment, far below where numbers stop being exact. */
const MAX_MSAT = 100_000_000_000_000;

/** One bitcoin: a higher price is a mistake. */
const MAX_USERNAME_PRICE_SAT = 100_000_000;

/** Ten years. */
const MAX_USERNAME_GRACE_DAYS = 3_650;

const DAY_MS = 24 * 60 * 60_000;

/** Every discovery response contains it. */
const MAX_LNURL_TEXT_LENGTH = 200;

/** It has to fit into a URL, with four bytes per character and three characters per byte, beside a zap request. */
const MAX_COMMENT_LENGTH = 2_000;

/** Each gets every receipt. */
const MAX_ZAP_RELAYS = 20;

/** For no limit there is 0. */
const MAX_LIMIT = 1_000_000;

/** The length of keys made from it, such as that of HS256; shorter ones can be guessed. */
const MIN_SECRET_LENGTH = 32;

/** Thrown if the environment does not describe a service that can start. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  /** One line for each wrong setting, each naming it. */
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

/** Where settings are read from. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Everything that an operator decides, read once at start. `.env.example` documents each setting. */
export type Config = Readonly<ReturnType<typeof toConfig>>;

/**
 * Turns environment variables into a frozen {@link Config}.
 *
 * @throws ConfigError naming all wrong or missing settings
 */
export function readConfig(env: Environment = process.env): Config {
  const given = Object.fromEntries(givenEntries(env));
  const parsed = environment(given['ALLOW_PRIVATE_NETWORKS'] === 'true').safeParse(given);
  if (!parsed.success) {
    throw new ConfigError(
      parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${redact(message)}`),
    );
  }
  const problems = conflictsIn(parsed.data);
  if (problems.length > 0) {
    throw new ConfigError(problems);
  }
  return Object.freeze(toConfig(parsed.data));
}

/** The names of all variables that an environment gives a value to, settings and others. */
export function givenNames(env: Environment = process.env): string[] {
  return givenEntries(env).map(([name]) => name);
}

function givenEntries(env: Environment): [name: string, value: string | undefined][] {
  return Object.entries(env).filter(([, value]) => value !== undefined && value.trim() !== '');
}

/** Whether npm started this process: it passes on signals that a terminal has already sent to both. */
export function isRunByNpm(env: Environment = process.env): boolean {
  return env['npm_lifecycle_event'] !== undefined;
}

type Settings = z.output<ReturnType<typeof environment>>;

function toConfig(settings: Settings) {
  const limits: InboundLimits = {
    requests: settings.LIMIT_REQUESTS,
    invoices: settings.LIMIT_INVOICES,
    changes: settings.LIMIT_CHANGES,
    purchases: settings.LIMIT_PURCHASES,
    openInvoicesPerRecipient: settings.LIMIT_OPEN_INVOICES_PER_RECIPIENT,
    openInvoicesPerAddress: settings.LIMIT_OPEN_INVOICES_PER_ADDRESS,
    openInvoicesPerPair: settings.LIMIT_OPEN_INVOICES_PER_PAIR,
    sockets: settings.LIMIT_SOCKETS,
    socketsPerAddress: settings.LIMIT_SOCKETS_PER_ADDRESS,
    socketsPerKey: settings.LIMIT_SOCKETS_PER_KEY,
    socketMessages: settings.LIMIT_SOCKET_MESSAGES,
  };
  return {
    host: settings.HOST,
    /** 0: the system chooses a free port. */
    port: settings.PORT,
    /** The first is canonical. Empty: the local address. */
    publicOrigins: settings.PUBLIC_ORIGINS,
    /** Addresses and CIDRs. */
    trustProxy: settings.TRUST_PROXY,
    database:
      settings.DATABASE_URL === undefined
        ? ({ kind: 'sqlite', dataDir: settings.DATA_DIR } as const)
        : ({ kind: 'postgres', url: settings.DATABASE_URL } as const),
    /** Null with SQLite only: a generated one is kept beside it. */
    jwtSecret: settings.JWT_SECRET ?? null,
    jwtSecretPrevious: settings.JWT_SECRET_PREVIOUS ?? null,
    /** Normalised. */
    defaultMintUrl: settings.DEFAULT_MINT_URL,
    defaultLockQuotes: settings.DEFAULT_LOCK_QUOTES,
    minSendableMsat: settings.MIN_SENDABLE_MSAT,
    maxSendableMsat: settings.MAX_SENDABLE_MSAT,
    /** The `text/plain` line of LNURL metadata; `{address}` stands for the Lightning address. */
    lnurlText: settings.LNURL_TEXT,
    /** 0: comments are ignored. */
    maxCommentLength: settings.MAX_COMMENT_LENGTH,
    zaps: {
      /** Hex. Null: no zaps. */
      secretKey: settings.ZAP_SECRET_KEY ?? null,
      /** Normalised. They get each receipt, and are asked for the relays of recipients (NIP-65). */
      relays: [...new Set(settings.ZAP_RELAYS)],
    },
    usernames: {
      /** 0: free. Null: usernames cannot be bought. */
      priceSat: settings.USERNAME_PRICE_SAT ?? null,
      /** Normalised. */
      mintUrl: settings.USERNAME_MINT_URL ?? settings.DEFAULT_MINT_URL,
      /** In lower case. */
      reserved: settings.USERNAME_RESERVED,
      graceMs: settings.USERNAME_GRACE_DAYS * DAY_MS,
    },
    /** Null with SQLite: a generated one is kept beside it. */
    treasurySecret: settings.TREASURY_SECRET ?? null,
    allowPrivateNetworks: settings.ALLOW_PRIVATE_NETWORKS,
    limits,
    /** Null: no metrics. */
    metrics:
      settings.METRICS_PORT === undefined
        ? null
        : { host: settings.METRICS_HOST, port: settings.METRICS_PORT },
    logLevel: settings.LOG_LEVEL,
    /** `auto`: text if standard output is a terminal, else JSON. */
    logFormat: settings.LOG_FORMAT,
    stopDelayMs: settings.STOP_DELAY_SECONDS * 1_000,
  };
}

const flag = z
  .enum(['true', 'false'], { error: 'must be true or false' })
  .transform((value) => value === 'true');

const wholeNumber = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/, { error: 'must be a whole number' })
    .transform(Number)
    .refine((value) => value >= min && value <= max, {
      error: `must be between ${min} and ${max}`,
    });

const secret = z
  .string()
  .min(MIN_SECRET_LENGTH, { error: `must have at least ${MIN_SECRET_LENGTH} characters` });

/** A text that `parse` accepts; null is a problem. */
const parsedText = (parse: (text: string) => string | null, problem: string) =>
  z.string().transform((text, context) => {
    const value = parse(text);
    if (value === null) {
      context.addIssue({ code: 'custom', message: problem });
    }
    return value ?? '';
  });

const commaSeparated = z.string().transform((text) =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== ''),
);

/** A comma separated list whose entries `parse` accepts; null is a problem, which the entry's name precedes. */
const listOf = (parse: (entry: string) => string | null, problem: string) =>
  commaSeparated.transform((entries, context) =>
    entries.map((entry, index) => {
      const value = parse(entry);
      if (value === null) {
        context.addIssue({ code: 'custom', message: `${nameOfEntry(entry, index)} ${problem}` });
      }
      return value ?? '';
    }),
  );

/** A limit for clients ({@link InboundLimits}); 0: no limit. */
const limit = (usual: number) => wholeNumber(0, MAX_LIMIT).default(usual);

/** @param allowPrivate whether mints and relays may be on private networks and without TLS (development) */
function environment(allowPrivate: boolean) {
  const mintUrl = parsedText(
    (text) => normaliseMintUrl(text, { allowHttp: allowPrivate }),
    'must be an https:// address without user, query or fragment, on port 443 or from 1024 on' +
      ' (http:// needs ALLOW_PRIVATE_NETWORKS=true)',
  );
  return z.object({
    HOST: z.string().default(DEFAULT_HOST),
    PORT: wholeNumber(0, 65_535).default(3_000),
    PUBLIC_ORIGINS: listOf(
      toOrigin,
      'must be an http(s) origin without a path, such as https://example.com',
    )
      .refine((origins) => origins.length > 0, { error: 'must name at least one origin' })
      .default([]),
    TRUST_PROXY: commaSeparated
      .refine((proxies) => proxies.every(isAddressOrCidr), {
        error: 'must be IP addresses or CIDRs separated by commas',
      })
      .default([]),
    DATABASE_URL: z
      .string()
      .regex(/^postgres(ql)?:\/\//, { error: 'must be a postgres:// address' })
      .optional(),
    DATA_DIR: z.string().default('./data'),
    JWT_SECRET: secret.optional(),
    JWT_SECRET_PREVIOUS: secret.optional(),
    DEFAULT_MINT_URL: z
      .string({ error: 'is required: the mint of users who chose none' })
      .pipe(mintUrl),
    DEFAULT_LOCK_QUOTES: flag.default(false),
    MIN_SENDABLE_MSAT: wholeNumber(1, MAX_MSAT).default(1_000),
    MAX_SENDABLE_MSAT: wholeNumber(SMALLEST_MAX_MSAT, MAX_MSAT).default(1_000_000_000),
    LNURL_TEXT: z
      .string()
      .max(MAX_LNURL_TEXT_LENGTH, {
        error: `must have at most ${MAX_LNURL_TEXT_LENGTH} characters`,
      })
      .default('Payment to {address}'),
    // A tweet, as LUD-12 suggests.
    MAX_COMMENT_LENGTH: wholeNumber(0, MAX_COMMENT_LENGTH).default(255),
    ZAP_SECRET_KEY: parsedText(
      (text) => readSecretKey(text.trim()),
      'must be the secret key of a Nostr identity: nsec1..., or 64 hexadecimal digits',
    ).optional(),
    ZAP_RELAYS: listOf(
      (text) => normaliseRelayUrl(text, { allowPrivate }),
      'must be a wss:// address of a public host without user, on port 443 or from 1024 on' +
        ' (ws:// and private hosts need ALLOW_PRIVATE_NETWORKS=true)',
    )
      .refine((relays) => relays.length <= MAX_ZAP_RELAYS, {
        error: `must name at most ${MAX_ZAP_RELAYS} relays`,
      })
      .default([]),
    USERNAME_PRICE_SAT: wholeNumber(0, MAX_USERNAME_PRICE_SAT).optional(),
    USERNAME_MINT_URL: mintUrl.optional(),
    USERNAME_RESERVED: listOf(parseUsername, 'cannot be a username anyway').default([]),
    USERNAME_GRACE_DAYS: wholeNumber(0, MAX_USERNAME_GRACE_DAYS).default(30),
    TREASURY_SECRET: secret.optional(),
    ALLOW_PRIVATE_NETWORKS: flag.default(false),
    // Two hundred wallets behind one address that poll every five seconds, with room for some preflights
    // and payers. A signature takes half a millisecond: all of them together a twentieth of a core.
    LIMIT_REQUESTS: limit(6_000),
    // Ten a second: the server of a custodial wallet asks for all of its users.
    LIMIT_INVOICES: limit(600),
    LIMIT_CHANGES: limit(300),
    // A buyer asks twice, and again every few seconds while a mint is slow.
    LIMIT_PURCHASES: limit(120),
    // Ten addresses at the limit per pair fill a recipient's; one address fills the limits of three recipients.
    LIMIT_OPEN_INVOICES_PER_RECIPIENT: limit(1_000),
    LIMIT_OPEN_INVOICES_PER_ADDRESS: limit(300),
    LIMIT_OPEN_INVOICES_PER_PAIR: limit(100),
    LIMIT_SOCKETS: limit(20_000),
    LIMIT_SOCKETS_PER_ADDRESS: limit(200),
    // As many devices as a person has, and some connections that died unnoticed.
    LIMIT_SOCKETS_PER_KEY: limit(20),
    LIMIT_SOCKET_MESSAGES: limit(10),
    METRICS_HOST: z.string().default(DEFAULT_HOST),
    METRICS_PORT: wholeNumber(0, 65_535).optional(),
    LOG_LEVEL: z
      .enum(LOG_LEVELS, { error: `must be one of ${LOG_LEVELS.join(', ')}` })
      .default('info'),
    LOG_FORMAT: z
      .enum(LOG_FORMATS, { error: `must be one of ${LOG_FORMATS.join(', ')}` })
      .default('auto'),
    // Long enough that clients with open connections get a response that tells them to open others.
    STOP_DELAY_SECONDS: wholeNumber(0, MAX_STOP_DELAY_SECONDS).default(1),
  });
}

export const SETTING_NAMES: readonly string[] = Object.keys(environment(false).shape);

/** Problems of settings that are valid one by one. */
function conflictsIn(settings: Settings): string[] {
  const { PORT, METRICS_PORT, HOST, METRICS_HOST, JWT_SECRET } = settings;
  const hasServer = settings.DATABASE_URL !== undefined;
  const sellsNames = (settings.USERNAME_PRICE_SAT ?? 0) > 0;
  const range = { minMsat: settings.MIN_SENDABLE_MSAT, maxMsat: settings.MAX_SENDABLE_MSAT };
  const conflicts: [isGiven: boolean, problem: string][] = [
    [
      hasServer && sellsNames && settings.TREASURY_SECRET === undefined,
      'TREASURY_SECRET: is required with DATABASE_URL if names have a price: it encrypts what they' +
        ' earn, the same in every process',
    ],
    [
      hasServer && JWT_SECRET === undefined,
      'JWT_SECRET: is required with DATABASE_URL, so that every process signs with the same secret',
    ],
    [
      JWT_SECRET !== undefined && JWT_SECRET === settings.JWT_SECRET_PREVIOUS,
      'JWT_SECRET_PREVIOUS: must be another secret than JWT_SECRET, the one before it',
    ],
    [
      PORT !== 0 && METRICS_PORT === PORT && isHostShared(HOST, METRICS_HOST),
      'METRICS_PORT: must be another port than PORT, where the service itself listens',
    ],
    [
      sendableRange(range, null) === null,
      'MIN_SENDABLE_MSAT: must leave a whole sat up to MAX_SENDABLE_MSAT',
    ],
  ];
  return conflicts.filter(([isGiven]) => isGiven).map(([, problem]) => problem);
}

/** Whether two servers that listen on these hosts would need the same port. */
function isHostShared(one: string, other: string): boolean {
  const hosts = [one, other];
  const isEveryIpv4 = hosts.includes('0.0.0.0') && hosts.every((host) => !host.includes(':'));
  return one === other || hosts.includes('::') || isEveryIpv4;
}

/** Does not repeat a long entry that is no address: it may be a secret in the wrong place. */
function nameOfEntry(entry: string, index: number): string {
  const isPrintable = entry.includes('://') || entry.length < MIN_SECRET_LENGTH;
  return isPrintable ? `'${redact(withoutQuery(entry))}'` : `entry ${index + 1}`;
}

function isAddressOrCidr(text: string): boolean {
  const [, address = '', prefix] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const version = isIP(address);
  const bits = version === 4 ? 32 : 128;
  return version !== 0 && (prefix === undefined || (Number(prefix) >= 1 && Number(prefix) <= bits));
}

function toOrigin(text: string): string | null {
  if (!URL.canParse(text)) {
    return null;
  }
  const url = new URL(text);
  const isWeb = url.protocol === 'https:' || url.protocol === 'http:';
  const isBare = url.pathname === '/' && !/[?#@]/.test(text) && url.hostname !== '';
  return isWeb && isBare ? url.origin : null;
}

const PACKAGE = new URL('../package.json', import.meta.url);

/** The version of this program, as `package.json` says. */
export const VERSION: string = JSON.parse(readFileSync(PACKAGE, 'utf8')).version;
