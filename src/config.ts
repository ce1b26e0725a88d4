import { isIP } from 'node:net';
import { z } from 'zod';
import type { InboundLimits } from './domain/limits.ts';
import { sendableRange } from './domain/lnurl.ts';
import { normaliseMintUrl } from './domain/mint-url.ts';
import { readSecretKey } from './domain/nostr-key.ts';
import { redact } from './domain/redaction.ts';
import { normaliseRelayUrl, withoutQuery } from './domain/relay-url.ts';
import { parseUsername } from './domain/username.ts';

/** Everything that an operator decides, read once at start and never changed. See `.env.example`. */
export interface Config {
  host: string;
  /** 0 lets the system choose a free port. */
  port: number;
  /** Public origins of this one service; the first is canonical. Empty: the local address itself. */
  publicOrigins: readonly string[];
  /** Addresses or CIDRs of proxies whose `X-Forwarded-*` headers count. */
  trustProxy: readonly string[];
  database: { kind: 'postgres'; url: string } | { kind: 'embedded'; dataDir: string };
  /** Null where none was given, with the embedded database: then one is made and kept beside it. */
  jwtSecret: string | null;
  jwtSecretPrevious: string | null;
  /** Normalised. */
  defaultMintUrl: string;
  defaultLockQuotes: boolean;
  minSendableMsat: number;
  maxSendableMsat: number;
  /** The `text/plain` line of LNURL metadata; `{address}` stands for the Lightning address. */
  lnurlText: string;
  /** Characters that a payer's comment may have (LUD-12); 0: none are taken. */
  maxCommentLength: number;
  zaps: ZapSettings;
  usernames: UsernameSettings;
  /** Null where none was given; with the embedded database one is made then, and kept beside it. */
  treasurySecret: string | null;
  allowPrivateNetworks: boolean;
  limits: InboundLimits;
  /** Where Prometheus reads the metrics; null: nowhere. */
  metrics: { host: string; port: number } | null;
  logLevel: (typeof LOG_LEVELS)[number];
  /** `auto`: for people where standard output is a terminal, else JSON. */
  logFormat: (typeof LOG_FORMATS)[number];
  /** At the end, so long it says that it is not ready and goes on serving. */
  stopDelayMs: number;
}

/** How zaps are answered (NIP-57). */
interface ZapSettings {
  /** The key that signs receipts, hex. Null: there are no zaps. */
  secretKey: string | null;
  /** Normalised: relays that get each receipt, and that are asked where a recipient is found (NIP-65). */
  relays: readonly string[];
}

/** On what terms names are sold. */
interface UsernameSettings {
  /** 0: they are free. Null: nobody can have one. */
  priceSat: number | null;
  /** Normalised: where the tokens come from that pay for them. */
  mintUrl: string;
  /** Names that nobody can have, beside the built-in ones; in lower case. */
  reserved: readonly string[];
  /** So long nobody else can have a name that its owner left for another. */
  graceMs: number;
}

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

const LOG_FORMATS = ['auto', 'json', 'pretty'] as const;

/** The rest of a stop has to fit the 10 s that whoever stops a service gives it. */
const MAX_STOP_DELAY_SECONDS = 5;

/**
 * Connections that are in use have had an answer by then, which tells their clients to open others. A
 * balancer that asks less often needs more.
 */
const DEFAULT_STOP_DELAY_SECONDS = 1;

/** Nobody but this machine. */
const DEFAULT_HOST = '127.0.0.1';

const DEFAULT_PORT = 3000;

const DEFAULT_MIN_SENDABLE_MSAT = 1_000;
const DEFAULT_MAX_SENDABLE_MSAT = 1_000_000_000;

/** One sat: a mint counts in nothing smaller. */
const SMALLEST_MAX_MSAT = 1_000;

/** 1,000 BTC: far above any Lightning payment, far below where numbers stop being exact. */
const MAX_MSAT = 100_000_000_000_000;

/** One bitcoin: a higher price is a slip of the hand. */
const MAX_USERNAME_PRICE_SAT = 100_000_000;

const DEFAULT_USERNAME_GRACE_DAYS = 30;

/** Ten years: longer is for ever. */
const MAX_USERNAME_GRACE_DAYS = 3_650;

const DAY_MS = 24 * 60 * 60_000;

/** It travels in every discovery answer. */
const MAX_LNURL_TEXT_LENGTH = 200;

/** A tweet, as LUD-12 suggests. */
const DEFAULT_COMMENT_LENGTH = 255;

/** It has to fit a url, four bytes to a character and three to a byte, beside a zap request. */
const MAX_COMMENT_LENGTH = 2_000;

/** Each gets every receipt. */
const MAX_ZAP_RELAYS = 20;

/** Higher is none. */
const MAX_LIMIT = 1_000_000;

/** As long as the keys that are made of it, such as that of HS256; shorter ones can be guessed. */
const MIN_SECRET_LENGTH = 32;

const ORDINALS = new Intl.PluralRules('en', { type: 'ordinal' });
const ORDINAL_ENDINGS = new Map<Intl.LDMLPluralRule, string>([
  ['one', 'st'],
  ['two', 'nd'],
  ['few', 'rd'],
  ['other', 'th'],
]);

/** Thrown when the environment does not describe a service that can start. */
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

/**
 * Turns environment variables into a frozen {@link Config}.
 *
 * @throws ConfigError naming every wrong or missing setting at once
 */
export function readConfig(env: Environment = process.env): Config {
  const given = Object.fromEntries(givenEntries(env));
  const parsed = environment.safeParse(given);
  const problems = [...(parsed.error?.issues ?? []).map(describeIssue), ...crossProblems(given)];
  if (!parsed.success || problems.length > 0) {
    throw new ConfigError(problems);
  }
  const settings = parsed.data;
  const allowHttp = settings.ALLOW_PRIVATE_NETWORKS;
  const config: Config = {
    host: settings.HOST,
    port: settings.PORT,
    publicOrigins: settings.PUBLIC_ORIGINS,
    trustProxy: settings.TRUST_PROXY,
    database:
      settings.DATABASE_URL === undefined
        ? { kind: 'embedded', dataDir: settings.DATA_DIR }
        : { kind: 'postgres', url: settings.DATABASE_URL },
    jwtSecret: settings.JWT_SECRET ?? null,
    jwtSecretPrevious: settings.JWT_SECRET_PREVIOUS ?? null,
    defaultMintUrl:
      normaliseMintUrl(settings.DEFAULT_MINT_URL, { allowHttp }) ?? settings.DEFAULT_MINT_URL,
    defaultLockQuotes: settings.DEFAULT_LOCK_QUOTES,
    minSendableMsat: settings.MIN_SENDABLE_MSAT,
    maxSendableMsat: settings.MAX_SENDABLE_MSAT,
    lnurlText: settings.LNURL_TEXT,
    maxCommentLength: settings.MAX_COMMENT_LENGTH,
    zaps: zapSettings(settings, allowHttp),
    usernames: usernameSettings(settings, allowHttp),
    treasurySecret: settings.TREASURY_SECRET ?? null,
    allowPrivateNetworks: settings.ALLOW_PRIVATE_NETWORKS,
    limits: inboundLimits(settings),
    metrics:
      settings.METRICS_PORT === undefined
        ? null
        : Object.freeze({ host: settings.METRICS_HOST, port: settings.METRICS_PORT }),
    logLevel: settings.LOG_LEVEL,
    logFormat: settings.LOG_FORMAT,
    stopDelayMs: settings.STOP_DELAY_SECONDS * 1_000,
  };
  return Object.freeze(config);
}

/** The names of what an environment gives a value to, settings and others. */
export function givenNames(env: Environment = process.env): string[] {
  return givenEntries(env).map(([name]) => name);
}

function givenEntries(env: Environment): [name: string, value: string | undefined][] {
  return Object.entries(env).filter(([, value]) => value !== undefined && value.trim() !== '');
}

/** Whether npm started this process: it passes on signals that a terminal has sent to both already. */
export function isRunByNpm(env: Environment = process.env): boolean {
  return env['npm_lifecycle_event'] !== undefined;
}

function zapSettings(settings: z.output<typeof environment>, allowPrivate: boolean): ZapSettings {
  return Object.freeze({
    secretKey: settings.ZAP_SECRET_KEY ?? null,
    relays: [
      ...new Set(
        settings.ZAP_RELAYS.map((relay) => normaliseRelayUrl(relay, { allowPrivate }) ?? relay),
      ),
    ],
  });
}

function usernameSettings(
  settings: z.output<typeof environment>,
  allowHttp: boolean,
): UsernameSettings {
  const mintUrl = settings.USERNAME_MINT_URL ?? settings.DEFAULT_MINT_URL;
  return Object.freeze({
    priceSat: settings.USERNAME_PRICE_SAT ?? null,
    mintUrl: normaliseMintUrl(mintUrl, { allowHttp }) ?? mintUrl,
    reserved: settings.USERNAME_RESERVED,
    graceMs: settings.USERNAME_GRACE_DAYS * DAY_MS,
  });
}

function inboundLimits(settings: z.output<typeof environment>): InboundLimits {
  return Object.freeze({
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
  });
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

const commaSeparated = z.string().transform(entriesOf);

const origins = commaSeparated.transform((parts, context) => {
  if (parts.length === 0) {
    context.addIssue({ code: 'custom', message: 'must name at least one origin' });
  }
  return parts.map((part, index) => {
    const origin = toOrigin(part);
    if (origin === null) {
      context.addIssue({
        code: 'custom',
        message: `${nameOfEntry(part, index)} must be an http(s) origin without a path, such as https://example.com`,
      });
    }
    return origin ?? part;
  });
});

const proxies = commaSeparated.refine((parts) => parts.every(isAddressOrCidr), {
  error: 'must be IP addresses or CIDRs separated by commas',
});

const usernames = commaSeparated.transform((parts, context) =>
  parts.map((part, index) => {
    const name = parseUsername(part);
    if (name === null) {
      context.addIssue({
        code: 'custom',
        message: `${nameOfEntry(part, index)} could be nobody's username anyway`,
      });
    }
    return name ?? part;
  }),
);

const secret = z
  .string()
  .min(MIN_SECRET_LENGTH, { error: `must have at least ${MIN_SECRET_LENGTH} characters` });

const secretKey = z.string().transform((text, context) => {
  const key = readSecretKey(text.trim());
  if (key === null) {
    context.addIssue({
      code: 'custom',
      message: 'must be the secret key of a Nostr identity: nsec1..., or 64 hexadecimal digits',
    });
  }
  return key ?? '';
});

/** A limit for strangers ({@link InboundLimits}); 0 is none. */
const limit = (usual: number) => wholeNumber(0, MAX_LIMIT).default(usual);

const environment = z.object({
  HOST: z.string().default(DEFAULT_HOST),
  PORT: wholeNumber(0, 65_535).default(DEFAULT_PORT),
  PUBLIC_ORIGINS: origins.default([]),
  TRUST_PROXY: proxies.default([]),
  DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, { error: 'must be a postgres:// address' })
    .optional(),
  DATA_DIR: z.string().default('./data'),
  JWT_SECRET: secret.optional(),
  JWT_SECRET_PREVIOUS: secret.optional(),
  DEFAULT_MINT_URL: z.string({ error: 'is required: the mint of users who chose none' }),
  DEFAULT_LOCK_QUOTES: flag.default(false),
  MIN_SENDABLE_MSAT: wholeNumber(1, MAX_MSAT).default(DEFAULT_MIN_SENDABLE_MSAT),
  MAX_SENDABLE_MSAT: wholeNumber(SMALLEST_MAX_MSAT, MAX_MSAT).default(DEFAULT_MAX_SENDABLE_MSAT),
  LNURL_TEXT: z
    .string()
    .max(MAX_LNURL_TEXT_LENGTH, { error: `must have at most ${MAX_LNURL_TEXT_LENGTH} characters` })
    .default('Payment to {address}'),
  MAX_COMMENT_LENGTH: wholeNumber(0, MAX_COMMENT_LENGTH).default(DEFAULT_COMMENT_LENGTH),
  ZAP_SECRET_KEY: secretKey.optional(),
  ZAP_RELAYS: commaSeparated
    .refine((relays) => relays.length <= MAX_ZAP_RELAYS, {
      error: `must name at most ${MAX_ZAP_RELAYS} relays`,
    })
    .default([]),
  USERNAME_PRICE_SAT: wholeNumber(0, MAX_USERNAME_PRICE_SAT).optional(),
  USERNAME_MINT_URL: z.string().optional(),
  USERNAME_RESERVED: usernames.default([]),
  USERNAME_GRACE_DAYS: wholeNumber(0, MAX_USERNAME_GRACE_DAYS).default(DEFAULT_USERNAME_GRACE_DAYS),
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
  STOP_DELAY_SECONDS: wholeNumber(0, MAX_STOP_DELAY_SECONDS).default(DEFAULT_STOP_DELAY_SECONDS),
});

/** The names of all settings. */
export const SETTING_NAMES: readonly string[] = Object.keys(environment.shape);

/** What one setting alone cannot tell; reported beside the other problems, not after them. */
function crossProblems(given: Record<string, string | undefined>): string[] {
  const problems: string[] = [];
  const allowHttp = given['ALLOW_PRIVATE_NETWORKS'] === 'true';
  for (const name of ['DEFAULT_MINT_URL', 'USERNAME_MINT_URL']) {
    const mintUrl = given[name];
    if (mintUrl !== undefined && normaliseMintUrl(mintUrl, { allowHttp }) === null) {
      problems.push(
        `${name}: must be an https:// address without user, query or fragment, on port 443 or from 1024 on` +
          ' (http:// needs ALLOW_PRIVATE_NETWORKS=true)',
      );
    }
  }
  for (const [index, relay] of entriesOf(given['ZAP_RELAYS'] ?? '').entries()) {
    if (normaliseRelayUrl(relay, { allowPrivate: allowHttp }) === null) {
      // The key of zaps is set beside it: what is no address at all may be that, or a part of it.
      const name = isAddress(relay) ? quoted(withoutQuery(relay)) : numbered(index);
      problems.push(
        `ZAP_RELAYS: ${name} must be a wss:// address of a public host without user, on port 443 or` +
          ' from 1024 on (ws:// and private hosts need ALLOW_PRIVATE_NETWORKS=true)',
      );
    }
  }
  const sellsNames = Number(given['USERNAME_PRICE_SAT'] ?? 0) > 0;
  if (sellsNames && given['DATABASE_URL'] !== undefined && given['TREASURY_SECRET'] === undefined) {
    problems.push(
      'TREASURY_SECRET: is required with DATABASE_URL where names have a price: it encrypts what they' +
        ' earn, the same in every process',
    );
  }
  if (given['DATABASE_URL'] !== undefined && given['JWT_SECRET'] === undefined) {
    problems.push(
      'JWT_SECRET: is required with DATABASE_URL, so that every process signs with the same secret',
    );
  }
  if (given['JWT_SECRET'] !== undefined && given['JWT_SECRET'] === given['JWT_SECRET_PREVIOUS']) {
    problems.push('JWT_SECRET_PREVIOUS: must be another secret than JWT_SECRET, the one before it');
  }
  const port = Number(given['PORT'] ?? DEFAULT_PORT);
  const hosts = [given['HOST'] ?? DEFAULT_HOST, given['METRICS_HOST'] ?? DEFAULT_HOST] as const;
  if (port !== 0 && Number(given['METRICS_PORT']) === port && isHostShared(...hosts)) {
    problems.push('METRICS_PORT: must be another port than PORT, where the service itself listens');
  }
  const minMsat = Number(given['MIN_SENDABLE_MSAT'] ?? DEFAULT_MIN_SENDABLE_MSAT);
  const maxMsat = Number(given['MAX_SENDABLE_MSAT'] ?? DEFAULT_MAX_SENDABLE_MSAT);
  const isRange = maxMsat >= SMALLEST_MAX_MSAT && maxMsat <= MAX_MSAT;
  if (isRange && sendableRange({ minMsat, maxMsat }, null) === null) {
    problems.push('MIN_SENDABLE_MSAT: must leave a whole sat up to MAX_SENDABLE_MSAT');
  }
  return problems;
}

/** Whether who listens at one host has the port of the other, too. */
function isHostShared(one: string, other: string): boolean {
  const hosts = [one, other];
  const isEveryIpv4 = hosts.includes('0.0.0.0') && hosts.every((host) => !host.includes(':'));
  return one === other || hosts.includes('::') || isEveryIpv4;
}

/** The parts of a setting that is a list. */
function entriesOf(text: string): string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
}

/** What is as long as a secret, and no address, may be one that stands in the wrong place. */
function nameOfEntry(entry: string, index: number): string {
  const isTellable = isAddress(entry) || entry.length < MIN_SECRET_LENGTH;
  return isTellable ? quoted(entry) : numbered(index);
}

function isAddress(entry: string): boolean {
  return entry.includes('://');
}

function quoted(entry: string): string {
  return `'${redact(entry)}'`;
}

/** As in `the 2nd entry`. */
function numbered(index: number): string {
  const number = index + 1;
  return `the ${number}${ORDINAL_ENDINGS.get(ORDINALS.select(number))} entry`;
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

function describeIssue(issue: z.core.$ZodIssue): string {
  return `${issue.path.join('.')}: ${redact(issue.message)}`;
}
