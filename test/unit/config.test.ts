import { readFileSync } from 'node:fs';
import { nip19 } from 'nostr-tools';
import { describe, expect, it } from 'vitest';
import { ConfigError, readConfig } from '../../src/config.ts';

const NEEDED = { DEFAULT_MINT_URL: 'https://mint.example' };
const SECRET = 'a secret of thirty-two characters';
const EXAMPLE = readFileSync(new URL('../../.env.example', import.meta.url), 'utf8');
const SETTINGS = [...EXAMPLE.matchAll(/^#?([A-Z_]+)=/gm)].map(([, name = '']) => name);

describe('the configuration', () => {
  it('needs nothing but a mint', () => {
    expect(readConfig(NEEDED)).toEqual({
      host: '127.0.0.1',
      port: 3000,
      publicOrigins: [],
      trustProxy: [],
      database: { kind: 'embedded', dataDir: './data' },
      jwtSecret: null,
      jwtSecretPrevious: null,
      defaultMintUrl: 'https://mint.example',
      defaultLockQuotes: false,
      minSendableMsat: 1_000,
      maxSendableMsat: 1_000_000_000,
      lnurlText: 'Payment to {address}',
      maxCommentLength: 255,
      zaps: { secretKey: null, relays: [] },
      usernames: {
        priceSat: null,
        mintUrl: 'https://mint.example',
        reserved: [],
        graceMs: 30 * 24 * 3_600_000,
      },
      treasurySecret: null,
      allowPrivateNetworks: false,
      limits: {
        requests: 6_000,
        invoices: 600,
        changes: 300,
        purchases: 120,
        openInvoicesPerRecipient: 1_000,
        openInvoicesPerAddress: 300,
        openInvoicesPerPair: 100,
        sockets: 20_000,
        socketsPerAddress: 200,
        socketsPerKey: 20,
        socketMessages: 10,
      },
      metrics: null,
      logLevel: 'info',
      logFormat: 'auto',
      stopDelayMs: 1_000,
    });
  });

  it('takes every setting', () => {
    const config = readConfig({
      HOST: '0.0.0.0',
      PORT: '0',
      PUBLIC_ORIGINS: ' https://Pay.example/, http://localhost:3000 ,',
      TRUST_PROXY: '127.0.0.1, 10.0.0.0/8,::1, fd00::/8',
      DATABASE_URL: 'postgresql://user:password@db/nutpost',
      JWT_SECRET: SECRET,
      JWT_SECRET_PREVIOUS: `${SECRET}, before`,
      DEFAULT_MINT_URL: 'HTTP://Mint.example:80/Bitcoin/',
      DEFAULT_LOCK_QUOTES: 'true',
      MIN_SENDABLE_MSAT: '1',
      MAX_SENDABLE_MSAT: '100000000000000',
      LNURL_TEXT: 'Thanks, {address}',
      MAX_COMMENT_LENGTH: '0',
      ZAP_SECRET_KEY: 'AB'.repeat(32),
      ZAP_RELAYS: 'wss://Relay.example/, ws://127.0.0.1:7777,wss://relay.example',
      USERNAME_PRICE_SAT: '5000',
      USERNAME_MINT_URL: 'https://Names.example/',
      USERNAME_RESERVED: 'Satoshi, hal',
      USERNAME_GRACE_DAYS: '7',
      TREASURY_SECRET: `${SECRET}, of gold`,
      ALLOW_PRIVATE_NETWORKS: 'true',
      LIMIT_REQUESTS: '1',
      LIMIT_INVOICES: '2',
      LIMIT_CHANGES: '3',
      LIMIT_PURCHASES: '4',
      LIMIT_OPEN_INVOICES_PER_RECIPIENT: '5',
      LIMIT_OPEN_INVOICES_PER_ADDRESS: '6',
      LIMIT_OPEN_INVOICES_PER_PAIR: '7',
      LIMIT_SOCKETS: '8',
      LIMIT_SOCKETS_PER_ADDRESS: '9',
      LIMIT_SOCKETS_PER_KEY: '10',
      LIMIT_SOCKET_MESSAGES: '0',
      METRICS_HOST: '10.0.0.1',
      METRICS_PORT: '9464',
      LOG_LEVEL: 'debug',
      LOG_FORMAT: 'json',
      STOP_DELAY_SECONDS: '5',
    });
    expect(config).toEqual({
      host: '0.0.0.0',
      port: 0,
      publicOrigins: ['https://pay.example', 'http://localhost:3000'],
      trustProxy: ['127.0.0.1', '10.0.0.0/8', '::1', 'fd00::/8'],
      database: { kind: 'postgres', url: 'postgresql://user:password@db/nutpost' },
      jwtSecret: SECRET,
      jwtSecretPrevious: `${SECRET}, before`,
      defaultMintUrl: 'http://mint.example/Bitcoin',
      defaultLockQuotes: true,
      minSendableMsat: 1,
      maxSendableMsat: 100_000_000_000_000,
      lnurlText: 'Thanks, {address}',
      maxCommentLength: 0,
      zaps: {
        secretKey: 'ab'.repeat(32),
        relays: ['wss://relay.example', 'ws://127.0.0.1:7777'],
      },
      usernames: {
        priceSat: 5_000,
        mintUrl: 'https://names.example',
        reserved: ['satoshi', 'hal'],
        graceMs: 7 * 24 * 3_600_000,
      },
      treasurySecret: `${SECRET}, of gold`,
      allowPrivateNetworks: true,
      limits: {
        requests: 1,
        invoices: 2,
        changes: 3,
        purchases: 4,
        openInvoicesPerRecipient: 5,
        openInvoicesPerAddress: 6,
        openInvoicesPerPair: 7,
        sockets: 8,
        socketsPerAddress: 9,
        socketsPerKey: 10,
        socketMessages: 0,
      },
      metrics: { host: '10.0.0.1', port: 9_464 },
      logLevel: 'debug',
      logFormat: 'json',
      stopDelayMs: 5_000,
    });
    expect(Object.isFrozen(config)).toBe(true);
  });

  it('takes the key of zaps as nsec, and tells neither it nor what was meant to be it', () => {
    const nsec = nip19.nsecEncode(Buffer.alloc(32, 7));
    const config = readConfig({ ...NEEDED, ZAP_SECRET_KEY: nsec });
    expect(config.zaps.secretKey).toBe('07'.repeat(32));
    for (const wrong of [nsec.slice(0, -1), '00'.repeat(32), 'ff'.repeat(32), 'my key']) {
      const problems = problemsOf({ ...NEEDED, ZAP_SECRET_KEY: wrong });
      expect(problems).toHaveLength(1);
      expect(problems[0]).toMatch(/^ZAP_SECRET_KEY: must be/);
      expect(problems[0]).not.toContain(wrong);
    }
  });

  it.each([
    'ws://relay.example',
    'wss://127.0.0.1',
    'wss://localhost:7777',
    'wss://me@relay.example',
    'https://relay.example',
    'relay.example',
    'wss://relay.example:22',
  ])('does not publish to %s', (relay) => {
    expect(problemsOf({ ...NEEDED, ZAP_RELAYS: `wss://good.example,${relay}` })).toEqual([
      expect.stringMatching(/^ZAP_RELAYS: /),
    ]);
  });

  it('names a relay that is wrong, without the token in its query', () => {
    const relays = 'wss://good.example?token=hunter1,wss://127.0.0.1/inbox?for=hunter2';
    const problems = problemsOf({ ...NEEDED, ZAP_RELAYS: relays });
    expect(problems).toEqual([
      expect.stringMatching(/^ZAP_RELAYS: 'wss:\/\/127.0.0.1\/inbox' must be a wss:\/\/ address/),
    ]);
  });

  it('numbers the relays that are no address, since they may be a key', () => {
    const relays = ` wss://good.example,, ${'ab'.repeat(32)},wss://other.example,relay.example`;
    expect(problemsOf({ ...NEEDED, ZAP_RELAYS: relays })).toEqual([
      expect.stringMatching(/^ZAP_RELAYS: the 2nd entry must be a wss:\/\/ address/),
      expect.stringMatching(/^ZAP_RELAYS: the 4th entry must be /),
    ]);
  });

  it('names no more relays than can be served', () => {
    const relays = Array.from({ length: 21 }, (_, index) => `wss://relay${index}.example`).join();
    expect(problemsOf({ ...NEEDED, ZAP_RELAYS: relays })).toEqual([
      'ZAP_RELAYS: must name at most 20 relays',
    ]);
  });

  it('takes an empty setting for none', () => {
    const empty = { PORT: '', PUBLIC_ORIGINS: ' ', DATABASE_URL: '', JWT_SECRET: '' };
    expect(readConfig({ ...NEEDED, ...empty })).toEqual(readConfig(NEEDED));
  });

  it('needs no treasury secret for names that are free, or for an embedded database', () => {
    const onServer = { DATABASE_URL: 'postgres://db', JWT_SECRET: SECRET };
    expect(problemsOf({ ...NEEDED, ...onServer, USERNAME_PRICE_SAT: '0' })).toEqual([]);
    expect(problemsOf({ ...NEEDED, USERNAME_PRICE_SAT: '21' })).toEqual([]);
  });

  it('sells names for ecash of the default mint where no other is named', () => {
    const config = readConfig({ ...NEEDED, USERNAME_PRICE_SAT: '0' });
    expect(config.usernames).toEqual({
      priceSat: 0,
      mintUrl: 'https://mint.example',
      reserved: [],
      graceMs: 30 * 24 * 3_600_000,
    });
  });

  it('passes over what is not its own', () => {
    expect(readConfig({ ...NEEDED, PATH: '/bin', HOME: undefined })).toEqual(readConfig(NEEDED));
  });

  it.each([
    [{ PORT: '65536' }, 'PORT: must be between 0 and 65535'],
    [{ PORT: 'http' }, 'PORT: must be a whole number'],
    [{ PORT: '-1' }, 'PORT: must be a whole number'],
    [
      { PUBLIC_ORIGINS: 'pay.example' },
      /^PUBLIC_ORIGINS: 'pay.example' must be an http\(s\) origin/,
    ],
    [{ PUBLIC_ORIGINS: 'https://pay.example/path' }, /^PUBLIC_ORIGINS: /],
    [{ PUBLIC_ORIGINS: 'https://pay.example?x' }, /^PUBLIC_ORIGINS: /],
    [{ PUBLIC_ORIGINS: 'ftp://pay.example' }, /^PUBLIC_ORIGINS: /],
    [{ TRUST_PROXY: 'true' }, 'TRUST_PROXY: must be IP addresses or CIDRs separated by commas'],
    [{ TRUST_PROXY: 'fade' }, /^TRUST_PROXY: /],
    [{ TRUST_PROXY: '10.0.0' }, /^TRUST_PROXY: /],
    [{ TRUST_PROXY: '10.0.0.0/33' }, /^TRUST_PROXY: /],
    [{ TRUST_PROXY: '10.0.0.0/0' }, /^TRUST_PROXY: /],
    [{ TRUST_PROXY: '127.0.0.1,::1/129' }, /^TRUST_PROXY: /],
    [
      { DATABASE_URL: 'mysql://db', JWT_SECRET: SECRET },
      'DATABASE_URL: must be a postgres:// address',
    ],
    [{ DATABASE_URL: 'postgres://db' }, /^JWT_SECRET: is required with DATABASE_URL/],
    [{ JWT_SECRET: 'short' }, 'JWT_SECRET: must have at least 32 characters'],
    [{ JWT_SECRET_PREVIOUS: 'short' }, 'JWT_SECRET_PREVIOUS: must have at least 32 characters'],
    [
      { DEFAULT_MINT_URL: 'http://mint.example' },
      /^DEFAULT_MINT_URL: must be an https:\/\/ address/,
    ],
    [{ DEFAULT_MINT_URL: 'mint' }, /^DEFAULT_MINT_URL: /],
    [
      { DEFAULT_MINT_URL: undefined },
      'DEFAULT_MINT_URL: is required: the mint of users who chose none',
    ],
    [{ DEFAULT_LOCK_QUOTES: 'yes' }, 'DEFAULT_LOCK_QUOTES: must be true or false'],
    [{ ALLOW_PRIVATE_NETWORKS: '1' }, 'ALLOW_PRIVATE_NETWORKS: must be true or false'],
    [{ MIN_SENDABLE_MSAT: '0' }, /^MIN_SENDABLE_MSAT: must be between 1 and /],
    [
      { MIN_SENDABLE_MSAT: '1', MAX_SENDABLE_MSAT: '999' },
      /^MAX_SENDABLE_MSAT: must be between 1000 and /,
    ],
    [{ MAX_SENDABLE_MSAT: '1e9' }, 'MAX_SENDABLE_MSAT: must be a whole number'],
    [{ MAX_SENDABLE_MSAT: '100000000000001' }, /^MAX_SENDABLE_MSAT: must be between /],
    [{ PUBLIC_ORIGINS: ',' }, 'PUBLIC_ORIGINS: must name at least one origin'],
    [
      { MIN_SENDABLE_MSAT: '1001', MAX_SENDABLE_MSAT: '1999' },
      'MIN_SENDABLE_MSAT: must leave a whole sat up to MAX_SENDABLE_MSAT',
    ],
    [
      { MIN_SENDABLE_MSAT: '2000', MAX_SENDABLE_MSAT: '1000' },
      'MIN_SENDABLE_MSAT: must leave a whole sat up to MAX_SENDABLE_MSAT',
    ],
    [{ LNURL_TEXT: 'x'.repeat(201) }, 'LNURL_TEXT: must have at most 200 characters'],
    [{ USERNAME_PRICE_SAT: 'free' }, 'USERNAME_PRICE_SAT: must be a whole number'],
    [{ USERNAME_PRICE_SAT: '100000001' }, /^USERNAME_PRICE_SAT: must be between 0 and /],
    [{ USERNAME_MINT_URL: 'http://mint.example' }, /^USERNAME_MINT_URL: must be an https:/],
    [
      { USERNAME_RESERVED: 'satoshi, hal-finney' },
      "USERNAME_RESERVED: 'hal-finney' could be nobody's username anyway",
    ],
    [{ USERNAME_GRACE_DAYS: '3651' }, /^USERNAME_GRACE_DAYS: must be between 0 and /],
    [{ TREASURY_SECRET: 'short' }, 'TREASURY_SECRET: must have at least 32 characters'],
    [
      { USERNAME_PRICE_SAT: '21', DATABASE_URL: 'postgres://db', JWT_SECRET: SECRET },
      /^TREASURY_SECRET: is required with DATABASE_URL/,
    ],
    [{ LOG_LEVEL: 'loud' }, /^LOG_LEVEL: must be one of trace, debug, /],
  ])('refuses %o in one line that names the setting', (wrong, line) => {
    expect(problemsOf({ ...NEEDED, ...wrong })).toEqual([expect.stringMatching(line)]);
  });

  it('names all that is wrong at once, and repeats no secret', () => {
    const problems = problemsOf({
      PORT: 'x',
      LOG_LEVEL: 'loud',
      JWT_SECRET: 'short',
      DATABASE_URL: 'secret://user:password@db',
    });
    const names = problems.map((problem) => problem.split(':')[0]);
    expect(names.sort()).toEqual([
      'DATABASE_URL',
      'DEFAULT_MINT_URL',
      'JWT_SECRET',
      'LOG_LEVEL',
      'PORT',
    ]);
    expect(problems.join()).not.toMatch(/short|password/);
  });

  it.each([
    ['a key in hex', 'c0ffee11'.repeat(8)],
    ['an nsec', nip19.nsecEncode(Buffer.alloc(32, 7))],
    ['a phrase', SECRET],
    ['a key among others', `wss://relay.example, ${'c0ffee11'.repeat(8)}`, 'c0ffee11'],
    ['the address of a database', 'postgres://me:hunter2@db.example/nutpost', 'hunter2'],
    ['a relay with a token', 'wss://127.0.0.1:22/?token=hunter2', 'hunter2'],
    ['a relay with what is a token', 'wss://127.0.0.1:22/?for=hunter2', 'hunter2', ['ZAP_RELAYS']],
  ])(
    'repeats no secret, whichever setting it was put into: %s',
    (_what, value, secret = value, names = SETTINGS) => {
      for (const name of names) {
        expect(problemsOf({ ...NEEDED, [name]: value }).join()).not.toContain(secret);
      }
    },
  );

  it('does not print a password that stands in the wrong place', () => {
    const problems = problemsOf({ ...NEEDED, PUBLIC_ORIGINS: 'https://me:hunter2@pay.example' });
    expect(problems.join()).toMatch(/^PUBLIC_ORIGINS: .*pay\.example/);
    expect(problems.join()).not.toMatch(/hunter2/);
  });

  it('takes no secret for the one before it', () => {
    const secrets = { JWT_SECRET: SECRET, JWT_SECRET_PREVIOUS: SECRET };
    expect(problemsOf({ ...NEEDED, ...secrets })).toEqual([
      'JWT_SECRET_PREVIOUS: must be another secret than JWT_SECRET, the one before it',
    ]);
  });

  it.each([
    ['at the same host', { METRICS_PORT: '3000' }],
    ['at a host of all', { HOST: '0.0.0.0', PORT: '80', METRICS_PORT: '80' }],
    ['of both kinds of addresses', { METRICS_HOST: '::', METRICS_PORT: '3000' }],
  ])('gives metrics no port that the service has %s', (_where, settings) => {
    expect(problemsOf({ ...NEEDED, ...settings })).toEqual([
      'METRICS_PORT: must be another port than PORT, where the service itself listens',
    ]);
  });

  it.each([
    ['another host', { METRICS_HOST: '10.0.0.1', METRICS_PORT: '3000' }],
    ['the other kind of addresses', { HOST: '0.0.0.0', METRICS_HOST: '::1', METRICS_PORT: '3000' }],
    ['any port', { PORT: '0', METRICS_PORT: '0' }],
  ])('gives metrics the same port at %s', (_where, settings) => {
    expect(problemsOf({ ...NEEDED, ...settings })).toEqual([]);
  });

  it('is documented, each setting with its default', () => {
    const documented = Object.fromEntries(
      [...EXAMPLE.matchAll(/^#?([A-Z_]+)="?(.*?)"?$/gm)].map(([, name = '', value = '']) => [
        name,
        value,
      ]),
    );
    const secrets = {
      JWT_SECRET: SECRET,
      TREASURY_SECRET: SECRET,
      ZAP_SECRET_KEY: '01'.repeat(32),
    };
    expect(() => readConfig({ ...documented, ...secrets })).not.toThrow();
    const examples = [
      'PUBLIC_ORIGINS',
      'TRUST_PROXY',
      'DATABASE_URL',
      'USERNAME_PRICE_SAT',
      'USERNAME_MINT_URL',
      'USERNAME_RESERVED',
      'ZAP_RELAYS',
      'METRICS_PORT',
    ];
    expect(examples.filter((name) => !documented[name])).toEqual([]);
    const defaults = Object.entries(documented).filter(([name]) => !examples.includes(name));
    expect(readConfig(Object.fromEntries(defaults))).toEqual(readConfig(NEEDED));
  });
});

function problemsOf(env: Record<string, string | undefined>): readonly string[] {
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
