import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { GuardedResponse } from '../../src/net/guarded-fetch.ts';
import { checkClockSkew } from '../../src/operator/doctor/check-clock.ts';
import {
  checkFiles,
  checkPostgresSettings,
  checkSchema,
} from '../../src/operator/doctor/check-database.ts';
import { checkOrigins } from '../../src/operator/doctor/check-origins.ts';
import {
  checkSettings,
  checkUnknownSettings,
  type SettingsCheckInput,
} from '../../src/operator/doctor/check-settings.ts';
import type { PostgresReport } from '../../src/operator/doctor/doctor-store.ts';
import type { Finding } from '../../src/operator/doctor/finding.ts';

describe('checkSettings', () => {
  const known = ['HOST', 'PORT', 'LIMIT_REQUESTS', 'ZAP_SECRET_KEY', 'DATABASE_URL', 'TRUST_PROXY'];

  it('ignores variables of other programs', () => {
    const others = ['PATH', 'HOSTNAME', 'POST', 'NODE_ENV', 'NUTPOST_SERVICE_HOST', 'NUTPOST_PORT'];
    expect(checkUnknownSettings([...others, ...known], known)).toEqual([]);
  });

  const good: SettingsCheckInput = {
    configuredCount: 5,
    publicOrigins: ['https://pay.example'],
    trustProxy: ['127.0.0.1'],
    allowPrivateNetworks: false,
    secrets: ['a', 'b'],
  };

  it.each<[string, Partial<SettingsCheckInput>, string | null]>([
    ['good ones', {}, null],
    ['no public origin', { publicOrigins: [] }, 'settings.public_origins'],
    ['an origin without TLS', { publicOrigins: ['http://x.example'] }, 'settings.public_origins'],
    ['TLS without a trusted proxy', { trustProxy: [] }, 'settings.trust_proxy'],
    ['open private networks', { allowPrivateNetworks: true }, 'settings.private_networks'],
    ['one secret for two purposes', { secrets: ['a', 'a'] }, 'settings.shared_secret'],
  ])('reports %s', (_what, changes, check) => {
    expect(wrongOf(checkSettings({ ...good, ...changes }))).toEqual(
      check === null ? [] : [`warning ${check}`],
    );
  });
});

describe('checkClock', () => {
  const NOW_MS = 1_800_000_000_000;
  const times = { sentAtMs: NOW_MS, receivedAtMs: NOW_MS + 200 };
  const check = (remoteMs: number) =>
    checkClockSkew('mint.example', new Date(remoteMs).toUTCString(), times);

  it.each([
    [0, 'ok'],
    [-3_000, 'ok'],
    [-6_000, 'warning'],
    [6_000, 'warning'],
    [42_000, 'problem'],
  ])('rates the clock of another machine %d ms ahead as %s', (aheadMs, level) => {
    expect(check(NOW_MS + aheadMs)).toMatchObject([{ check: 'clock.time', level }]);
  });

  it('says whether the clock is behind or ahead', () => {
    expect(check(NOW_MS + 42_000)[0]?.what).toContain('42 s behind that of mint.example');
    expect(check(NOW_MS - 43_000)[0]?.what).toContain('42 s ahead of that of mint.example');
  });

  it.each([undefined, 'soon'])('ignores the date %s', (date) => {
    expect(checkClockSkew('mint.example', date, times)).toEqual([]);
  });
});

describe('database checks', () => {
  const good: PostgresReport = {
    version: '17.6',
    majorVersion: 17,
    nowMs: 0,
    isDurable: true,
    isReadOnly: false,
    maxConnections: 97,
    usedConnections: 12,
  };

  it.each<[string, Partial<PostgresReport>, string[]]>([
    ['is good', {}, []],
    ['is too old', { majorVersion: 14 }, ['problem database.version']],
    ['is a standby', { isReadOnly: true }, ['problem database.read_only']],
    ['is not durable', { isDurable: false }, ['warning database.durability']],
    ['has few connections left', { usedConnections: 90 }, ['warning database.connections']],
  ])('checks a server that %s', (_what, changes, found) => {
    expect(wrongOf(checkPostgresSettings({ ...good, ...changes }))).toEqual(found);
  });

  it.each([
    ['are private, with room', false, 2 ** 30, []],
    ['other users can read', true, 2 ** 30, ['warning database.permissions']],
    ['are on an almost full disk', false, 2 ** 28, ['warning database.space']],
  ])('checks files that %s', (_what, isOpen, freeBytes, found) => {
    expect(wrongOf(checkFiles('/data', { hasLoosePermissions: isOpen, freeBytes }))).toEqual(found);
  });

  it.each([
    ['of an older version', ['0005_zaps'], [], ['warning database.migrations']],
    ['of a newer version', [], ['0042_future'], ['problem database.migrations']],
    ['up to date', [], [], []],
  ])('checks tables that are %s', (_what, missingMigrations, unknownMigrations, found) => {
    const serviceState = { runningProcessCount: 1, knownMintLimits: null };
    expect(wrongOf(checkSchema({ missingMigrations, unknownMigrations, serviceState }))).toEqual(
      found,
    );
  });
});

describe('checkOrigins', () => {
  const ORIGIN = 'https://pay.example';
  const discovery = { tag: 'payRequest', callback: `${ORIGIN}/.well-known/lnurlp/npub1` };

  const answered = (status: number, body: unknown, headers: [string, string][] = []) =>
    ({
      outcome: 'responded',
      status,
      text: JSON.stringify(body),
      headers: new Map(headers),
    }) as const;

  const check = (answer: GuardedResponse, changes: { isServiceRunning?: boolean } = {}) =>
    checkOrigins(
      { origins: [ORIGIN], zapPubkey: null, isServiceRunning: true, ...changes },
      { request: async () => answer },
    );

  const ELSEWHERE = { ...discovery, callback: 'https://other.example/x' };
  const OTHER_KEY = { ...discovery, nostrPubkey: 'ab' };
  const FAILURE = { status: 'ERROR', reason: 'Mint unavailable.' };
  const REDIRECT = answered(301, '', [['location', 'https://www.example']]);
  const NOT_FOUND: GuardedResponse = { outcome: 'unreachable', reason: 'name not found' };

  it.each<[string, GuardedResponse, string]>([
    ['leads to the service', answered(200, discovery), 'ok origin.reachable'],
    ['cannot be reached', NOT_FOUND, 'problem origin.reachable'],
    ['leads to a proxy that drops Host', answered(200, ELSEWHERE), 'problem origin.host'],
    ['leads to another zap key', answered(200, OTHER_KEY), 'problem origin.zap_key'],
    ['answers payers with an error', answered(200, FAILURE), 'problem origin.discovery'],
    ['redirects', REDIRECT, 'problem origin.redirect'],
    ['leads to a home page', answered(200, '<h1>Hello</h1>'), 'problem origin.elsewhere'],
    ['leads to a proxy without a service', answered(502, ''), 'problem origin.elsewhere'],
    ['rejects too many requests', answered(429, ''), 'warning origin.rate_limit'],
  ])('checks an origin that %s', async (_what, answer, found) => {
    expect((await check(answer)).map(toCode)).toEqual([found]);
  });

  it('returns a warning if no service is running', async () => {
    const [finding] = await check(answered(502, ''), { isServiceRunning: false });
    expect(finding).toMatchObject({ level: 'warning', check: 'origin.elsewhere' });
    expect(finding?.advice).toContain('No process of the service is running');
  });
});

it('documents every finding in docs/operations/doctor.md', () => {
  const root = path.resolve(import.meta.dirname, '../..');
  const folder = path.join(root, 'src/operator/doctor');
  const sources = readdirSync(folder)
    .map((file) => readFileSync(path.join(folder, file), 'utf8'))
    .join('\n');
  const areas = 'settings|database|clock|mint|relay|origin';
  const checks = new Set(sources.match(new RegExp(`(?<=')(?:${areas})\\.\\w+(?=')`, 'g')));
  const page = readFileSync(path.join(root, 'docs/operations/doctor.md'), 'utf8');
  const explained = new Set(page.match(new RegExp(`(?<=\`)(?:${areas})\\.\\w+(?=\`)`, 'g')));
  expect(explained).toEqual(checks);
});

function wrongOf(findings: readonly Finding[]): string[] {
  return findings.filter(({ level }) => level !== 'ok').map(toCode);
}

function toCode({ level, check }: Finding): string {
  return `${level} ${check}`;
}
