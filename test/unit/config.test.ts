import { readFileSync } from 'node:fs';
import { nip19 } from 'nostr-tools';
import { describe, expect, it } from 'vitest';
import { ConfigError, readCommandConfig, readConfig, SETTING_NAMES } from '../../src/config.ts';

const MINIMAL_SETTINGS = { DEFAULT_MINT_URL: 'https://mint.example' };
const SECRET = 'a secret of thirty-two characters';
const ENV_EXAMPLE = readFileSync(new URL('../../.env.example', import.meta.url), 'utf8');
const NSEC = nip19.nsecEncode(Buffer.alloc(32, 7));
const POSTGRES_SETTINGS = { DATABASE_URL: 'postgres://db', JWT_SECRET: SECRET };

describe('readConfig', () => {
  const documentedSettings = Object.fromEntries(
    [...ENV_EXAMPLE.matchAll(/^#?([A-Z_]+)="?(.*?)"?$/gm)].map(([, name = '', value = '']) => [
      name,
      value,
    ]),
  );
  /** For these settings, .env.example shows an example instead of the default. */
  const namesWithExamples = [
    'PUBLIC_ORIGINS',
    'TRUST_PROXY',
    'DATABASE_URL',
    'DATABASE_LISTEN_URL',
    'USERNAME_PRICE_SAT',
    'USERNAME_MINT_URL',
    'USERNAME_RESERVED',
    'ZAP_RELAYS',
    'ZAP_MINTS',
    'ALLOWED_MINTS',
    'SITE_LOGO',
    'SITE_MINTS',
    'SITE_LINKS',
    'FIAT_CURRENCIES',
    'FIAT_RATE_URL',
    'METRICS_PORT',
    'ALERT_URL',
  ];

  it('accepts the examples in .env.example, which has every setting', () => {
    expect(Object.keys(documentedSettings).sort()).toEqual([...SETTING_NAMES].sort());
    const secrets = {
      JWT_SECRET: SECRET,
      TREASURY_SECRET: SECRET,
      ZAP_SECRET_KEY: '01'.repeat(32),
      NOTIFY_SECRET_KEY: '02'.repeat(32),
    };
    expect(() => readConfig({ ...documentedSettings, ...secrets })).not.toThrow();
    expect(namesWithExamples.filter((name) => !documentedSettings[name])).toEqual([]);
  });

  it('uses the defaults in .env.example', () => {
    const defaults = Object.entries(documentedSettings).filter(
      ([name]) => !namesWithExamples.includes(name),
    );
    expect(readConfig(Object.fromEntries(defaults))).toEqual(readConfig(MINIMAL_SETTINGS));
  });

  it('requires only DEFAULT_MINT_URL', () => {
    expect(readConfig(MINIMAL_SETTINGS)).toMatchObject({
      database: { kind: 'sqlite', dataDir: './data' },
      zaps: { secretKey: null, relays: [], mints: null },
      usernames: { priceSat: null, mintUrl: 'https://mint.example' },
      metrics: null,
    });
  });

  it('reads every kind of setting', () => {
    const config = readConfig({
      PORT: '0',
      PUBLIC_ORIGINS: ' https://Pay.example/, http://localhost:3000 ,',
      TRUST_PROXY: '127.0.0.1, 10.0.0.0/8,::1, fd00::/8',
      DATABASE_URL: 'postgresql://user:password@pooler/nutpost',
      DATABASE_LISTEN_URL: 'postgresql://user:password@db/nutpost',
      JWT_SECRET: SECRET,
      JWT_SECRET_PREVIOUS: `${SECRET}, before`,
      DEFAULT_MINT_URL: 'HTTP://Mint.example:80/Bitcoin/',
      DEFAULT_LOCK_QUOTES: 'true',
      MAX_COMMENT_LENGTH: '0',
      ZAP_SECRET_KEY: 'AB'.repeat(32),
      ZAP_RELAYS: 'wss://Relay.example/, ws://127.0.0.1:7777,wss://relay.example',
      ZAP_MINTS: 'https://Mint.example/, http://127.0.0.1:3338/cashu/',
      USERNAME_PRICE_SAT: '5000',
      USERNAME_MINT_URL: 'https://Names.example/',
      USERNAME_RESERVED: 'Satoshi, hal',
      USERNAME_GRACE_DAYS: '7',
      TREASURY_SECRET: `${SECRET}, of gold`,
      ALLOW_PRIVATE_NETWORKS: 'true',
      LIMIT_REQUESTS: '1',
      LIMIT_SOCKET_MESSAGES: '0',
      METRICS_HOST: '10.0.0.1',
      METRICS_PORT: '9464',
      SITE_LINKS: 'Terms of use = /terms?a=b, Contact=mailto:a@b.example,I=https://c.example/',
      LOG_LEVEL: 'debug',
      STOP_DELAY_SECONDS: '5',
    });
    expect(config).toMatchObject({
      port: 0,
      publicOrigins: ['https://pay.example', 'http://localhost:3000'],
      trustProxy: ['127.0.0.1', '10.0.0.0/8', '::1', 'fd00::/8'],
      database: {
        kind: 'postgres',
        url: 'postgresql://user:password@pooler/nutpost',
        listenUrl: 'postgresql://user:password@db/nutpost',
      },
      jwtSecret: SECRET,
      jwtSecretPrevious: `${SECRET}, before`,
      defaultMintUrl: 'http://mint.example/Bitcoin',
      defaultLockQuotes: true,
      maxCommentLength: 0,
      zaps: {
        secretKey: 'ab'.repeat(32),
        relays: ['wss://relay.example', 'ws://127.0.0.1:7777'],
        mints: ['https://mint.example', 'http://127.0.0.1:3338/cashu'],
      },
      usernames: {
        priceSat: 5_000,
        mintUrl: 'https://names.example',
        reserved: ['satoshi', 'hal'],
        graceMs: 7 * 24 * 3_600_000,
      },
      treasurySecret: `${SECRET}, of gold`,
      // Like ZAP_SECRET_KEY.
      notifySecretKey: 'ab'.repeat(32),
      limits: { requestsPerMinute: 1, socketMessagesPerSecond: 0 },
      metrics: { host: '10.0.0.1', port: 9_464 },
      web: {
        links: [
          { label: 'Terms of use', href: '/terms?a=b' },
          { label: 'Contact', href: 'mailto:a@b.example' },
          { label: 'I', href: 'https://c.example/' },
        ],
      },
      logLevel: 'debug',
      stopDelayMs: 5_000,
    });
    expect(Object.isFrozen(config)).toBe(true);
  });

  it.each(['\r', ' ', '\u00a0'])('ignores %j around every value', (space) => {
    const settings = {
      ...MINIMAL_SETTINGS,
      ...POSTGRES_SETTINGS,
      SITE_NAME: 'nuts',
      METRICS_PORT: '9464',
      ALLOW_PRIVATE_NETWORKS: 'true',
      TRUST_PROXY: '10.0.0.1,10.0.0.2',
    };
    const padded = Object.entries(settings).map(([name, text]) => [
      name,
      `${space}${text}${space}`,
    ]);
    expect(readConfig(Object.fromEntries(padded))).toEqual(readConfig(settings));
  });

  it('refuses quotes around any value, without printing it', () => {
    for (const name of SETTING_NAMES) {
      for (const quote of ['"', "'"]) {
        const value = `${quote}${SECRET}${quote}\r`;
        expect(listProblems({ ...MINIMAL_SETTINGS, [name]: value })).toEqual([
          `${name} must not be in quotes: Docker and other programs that read the file keep them as part of the value`,
        ]);
      }
    }
    const text = { LNURL_TEXT: '"Pay" {address}', SITE_NAME: "Alice's" };
    expect(listProblems({ ...MINIMAL_SETTINGS, ...text })).toEqual([]);
  });

  it('refuses control characters in any value', () => {
    for (const name of SETTING_NAMES) {
      expect(listProblems({ ...MINIMAL_SETTINGS, [name]: '/da\rta' })).toEqual([
        `${name} must not contain line breaks or control characters`,
      ]);
    }
  });

  it.each([
    'postgres://db',
    'postgresql://user@db:5432/nutpost?sslmode=require&application_name=a@b',
    'postgres://user:p%40ss%23%2F%3F%25:!$&*()~@db.example/nutpost',
    'postgres://user:password@[::1]/nutpost',
  ])('accepts the database %s', (url) => {
    expect(listProblems({ ...MINIMAL_SETTINGS, ...POSTGRES_SETTINGS, DATABASE_URL: url })).toEqual(
      [],
    );
  });

  it.each(['@', '#', '/', '?', '%', 'a@b#c'])('asks to encode %s in a password', (character) => {
    const url = `postgres://user:pa${character}ss@db.example/nutpost`;
    expect(listProblems({ ...MINIMAL_SETTINGS, ...POSTGRES_SETTINGS, DATABASE_URL: url })).toEqual([
      expect.stringMatching(/^DATABASE_URL must be a postgres:.* @ as %40, # as %23/),
    ]);
  });

  it('requires no TREASURY_SECRET with PostgreSQL if usernames are free', () => {
    const settings = { ...MINIMAL_SETTINGS, ...POSTGRES_SETTINGS, USERNAME_PRICE_SAT: '0' };
    expect(listProblems(settings)).toEqual([]);
  });

  it.each<[Record<string, string | undefined>, RegExp]>([
    [{ PORT: 'http' }, /^PORT must be a whole number from 0 to 65535 \(got 'http'\)$/],
    [{ PUBLIC_ORIGINS: ',' }, /^PUBLIC_ORIGINS must have at least one entry/],
    [
      { PUBLIC_ORIGINS: 'pay.example' },
      /^PUBLIC_ORIGINS is invalid: 'pay.example' must be an http/,
    ],
    [{ TRUST_PROXY: 'true' }, /^TRUST_PROXY is invalid: 'true' must be an IP address or CIDR/],
    [{ TRUST_PROXY: '10.0.0.1, 0.0.0.0/0' }, /^TRUST_PROXY is invalid: '0.0.0.0\/0' must be/],
    [{ DATA_DIR: '~/nutpost' }, /^DATA_DIR must be a path without ~, \$ and comments/],
    [{ ...POSTGRES_SETTINGS, DATABASE_URL: 'mysql://db' }, /^DATABASE_URL must be a postgres:/],
    [{ DATABASE_LISTEN_URL: 'postgres://db' }, /^DATABASE_LISTEN_URL requires DATABASE_URL/],
    [{ ...POSTGRES_SETTINGS, JWT_SECRET: undefined }, /^JWT_SECRET is required with DATABASE_URL/],
    [{ JWT_SECRET: 'short' }, /^JWT_SECRET must have at least 32 characters/],
    [{ JWT_SECRET: SECRET, JWT_SECRET_PREVIOUS: SECRET }, /^JWT_SECRET_PREVIOUS must differ/],
    [{ DEFAULT_MINT_URL: 'http://mint.example' }, /^DEFAULT_MINT_URL must be an https:/],
    [{ DEFAULT_MINT_URL: undefined }, /^DEFAULT_MINT_URL is required/],
    [{ MIN_SENDABLE_MSAT: '1', MAX_SENDABLE_MSAT: '999' }, /^MAX_SENDABLE_MSAT must be a whole/],
    [{ MIN_SENDABLE_MSAT: '1001', MAX_SENDABLE_MSAT: '1999' }, /^MIN_SENDABLE_MSAT must not exc/],
    [{ LNURL_TEXT: 'x'.repeat(201) }, /^LNURL_TEXT must have at most 200 characters/],
    [{ SITE_LINKS: '/terms' }, /^SITE_LINKS is invalid: '\/terms' must be a label of up to 40/],
    [{ SITE_LINKS: 'A=javascript:alert(1)' }, /^SITE_LINKS is invalid: 'A=javascript:alert\(1\)'/],
    [{ SITE_LINKS: 'A=//b.example' }, /^SITE_LINKS is invalid: 'A=\/\/b.example' must be a label/],
    [{ SITE_LINKS: 'A=http://b.example' }, /^SITE_LINKS is invalid: 'A=http:\/\/b.example' must/],
    [{ USERNAME_RESERVED: 'hal, hal-finney' }, /^USERNAME_RESERVED is invalid: 'hal-finney' is no/],
    [{ ...POSTGRES_SETTINGS, USERNAME_PRICE_SAT: '21' }, /^TREASURY_SECRET is required with DATAB/],
    [{ ZAP_SECRET_KEY: 'ff'.repeat(32) }, /^ZAP_SECRET_KEY must be/],
    [
      { ZAP_RELAYS: Array.from({ length: 21 }, (_, i) => `wss://${i}.example`).join() },
      /^ZAP_RELAYS must name at most 20/,
    ],
    [
      { SITE_AMOUNTS: '1000,1.5' },
      /^SITE_AMOUNTS is invalid: '1\.5' is not a whole number of sats/,
    ],
    [{ SITE_AMOUNTS: '1000,5000,1000' }, /^SITE_AMOUNTS must have three to five amounts/],
    [{ SITE_AMOUNTS: '1,2,3,4,5,6' }, /^SITE_AMOUNTS must have three to five amounts/],
    [
      { SITE_MINTS: Array.from({ length: 11 }, (_, i) => `https://${i}.example`).join() },
      /^SITE_MINTS must name at most 10 mints/,
    ],
    [{ SITE_MINTS: 'http://a.example' }, /^SITE_MINTS is invalid: 'http:\/\/a.example' must be an/],
    [{ ALLOWED_MINTS: 'https://other.example' }, /^ALLOWED_MINTS must contain DEFAULT_MINT_URL/],
    [
      { RECIPIENTS: 'members', USERNAME_PRICE_SAT: '21' },
      /^USERNAME_PRICE_SAT must be 0 or unset with RECIPIENTS=members/,
    ],
    [{ FIAT_CURRENCIES: 'EUR' }, /^FIAT_CURRENCIES and FIAT_RATE_URL need each other/],
    [{ FIAT_CURRENCIES: 'EUR,euro' }, /^FIAT_CURRENCIES is invalid: 'euro' is not the code of a c/],
    [{ FIAT_RATE_URL: 'http://rates.example' }, /^FIAT_RATE_URL must be an https:\/\/ URL/],
    [{ ZAP_RELAYS: 'wss://a.example,ws://b.example' }, /^ZAP_RELAYS is invalid: 'ws:\/\/b.exampl/],
    // The problem does not quote the entry, because it may be a secret.
    [{ ZAP_RELAYS: `wss://a.example,,${SECRET}` }, /^ZAP_RELAYS is invalid: entry 2 must be a w/],
  ])('reports exactly one problem with %j', (settings, problem) => {
    expect(listProblems({ ...MINIMAL_SETTINGS, ...settings })).toEqual([
      expect.stringMatching(problem),
    ]);
  });

  it.each([
    'ftp://user:hidden@alerts.example/hook',
    'ntfy+https://alerts.example/',
    'ntfy://alerts.example/topic',
    'https://%ff:hidden@alerts.example/',
  ])('rejects the ALERT_URL %s without repeating its password', (url) => {
    const [problem] = listProblems({ ALERT_URL: url });
    expect(problem).toMatch(/^ALERT_URL must be the https:/);
    expect(problem).not.toContain('hidden');
  });

  it('reports all problems at once', () => {
    const problems = listProblems({ PORT: 'x', LOG_LEVEL: 'loud', JWT_SECRET: 'short' });
    const names = problems.map((problem) => problem.split(' ')[0]);
    expect(names.sort()).toEqual(['DEFAULT_MINT_URL', 'JWT_SECRET', 'LOG_LEVEL', 'PORT']);
  });

  it.each([
    ['a secret key in hex', 'c0ffee11'.repeat(8), 'c0ffee11'],
    ['a truncated nsec', NSEC.slice(0, -1), NSEC.slice(0, -1)],
    ['an nsec', NSEC, NSEC],
    ['a secret key in a list', `wss://relay.example, ${'c0ffee11'.repeat(8)}`, 'c0ffee11'],
    ['a database password', 'postgres://me:hunter2@db.example/nutpost', 'hunter2'],
    ['the password in an origin', 'https://me:hunter2@pay.example', 'hunter2'],
    ['the token in a relay URL', 'wss://127.0.0.1:22/?token=hunter2', 'hunter2'],
  ])('does not print %s, whichever setting contains the value', (_case, value, secret) => {
    for (const name of SETTING_NAMES) {
      expect(listProblems({ ...MINIMAL_SETTINGS, [name]: value }).join()).not.toContain(secret);
    }
  });
});

it('readCommandConfig reports invalid settings', () => {
  const env = { DEFAULT_MINT_URL: 'mint', DATA_DIR: '"/data"' };
  expect(() => readCommandConfig(env)).toThrow(/^DATA_DIR must not be in quotes/m);
  expect(() => readCommandConfig({ ...env, DATA_DIR: '' })).toThrow(/^DEFAULT_MINT_URL must be/);
});

function listProblems(env: Record<string, string | undefined>): readonly string[] {
  try {
    readConfig(env);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) {
      expect(error.message.split('\n')).toEqual(error.problems);
      return error.problems;
    }
    throw error;
  }
}
