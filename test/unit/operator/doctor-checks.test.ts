import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { HttpResponse } from '../../../src/net/http-client.ts';
import { checkClockSkew } from '../../../src/operator/doctor/check-clock.ts';
import {
  checkDataDir,
  checkPostgresSettings,
} from '../../../src/operator/doctor/check-database.ts';
import { checkOrigins } from '../../../src/operator/doctor/check-origins.ts';
import {
  checkSettings,
  checkUnknownSettings,
  type SettingsCheckInput,
} from '../../../src/operator/doctor/check-settings.ts';
import type { PostgresReport } from '../../../src/operator/doctor/doctor-store.ts';
import type { Finding } from '../../../src/operator/doctor/finding.ts';

it('checkUnknownSettings ignores variables of other programs', () => {
  const settings = ['HOST', 'PORT', 'LIMIT_REQUESTS', 'DATABASE_URL', 'TRUST_PROXY'];
  const others = ['PATH', 'HOSTNAME', 'POST', 'NODE_ENV', 'NUTPOST_SERVICE_HOST'];
  expect([...checkUnknownSettings([...others, ...settings], settings)]).toEqual([]);
});

describe('checkSettings', () => {
  const GOOD_SETTINGS: SettingsCheckInput = {
    configuredCount: 5,
    publicOrigins: ['https://pay.example'],
    trustProxy: ['127.0.0.1'],
    allowPrivateNetworks: false,
    defaultMintUrl: 'https://mint.example',
    zaps: { secretKey: 'a', relays: [], mints: ['https://mint.example'] },
    notifySecretKey: 'a',
    secrets: ['a', 'b'],
  };

  it.each<[Partial<SettingsCheckInput>, string[]]>([
    [{}, []],
    [{ publicOrigins: [] }, ['warning settings.public_origins']],
    [{ publicOrigins: ['http://x.example'] }, ['warning settings.public_origins']],
    [{ trustProxy: [] }, ['warning settings.trust_proxy']],
    [{ allowPrivateNetworks: true }, ['warning settings.private_networks']],
    [{ defaultMintUrl: 'https://other.example' }, ['warning settings.zap_mints']],
    [{ notifySecretKey: 'b' }, ['warning settings.notify_relays']],
    [{ secrets: ['a', 'a'] }, ['warning settings.shared_secret']],
  ])('judges settings that differ from good ones by %j', (changes, expected) => {
    const findings = checkSettings({ ...GOOD_SETTINGS, ...changes });
    expect(listWarningsAndProblems(findings)).toEqual(expected);
  });
});

it.each([
  ['ok', 0],
  ['warning', -6_000],
  ['problem', 42_000],
])('checkClockSkew returns the level "%s" if the remote clock is %d ms ahead', (level, aheadMs) => {
  const sentAtMs = 1_800_000_000_000;
  const dateHeader = new Date(sentAtMs + aheadMs).toUTCString();
  const times = { sentAtMs, receivedAtMs: sentAtMs + 200 };
  expect([...checkClockSkew('mint.example', dateHeader, times)]).toMatchObject([{ level }]);
});

describe('database checks', () => {
  const GOOD_REPORT: PostgresReport = {
    version: '17.6',
    majorVersion: 17,
    nowMs: 0,
    isDurable: true,
    isReadOnly: false,
    isStandby: false,
    replication: 'none',
    maxConnections: 97,
    usedConnections: 12,
  };

  it.each<[string, Partial<PostgresReport>, string[]]>([
    ['is too old', { majorVersion: 14 }, ['problem database.version']],
    ['has few connections left', { usedConnections: 90 }, ['warning database.connections']],
  ])('returns the expected findings for a server that %s', (_case, changes, expected) => {
    const findings = checkPostgresSettings({ ...GOOD_REPORT, ...changes });
    expect(listWarningsAndProblems(findings)).toEqual(expected);
  });

  it.each([
    ['other users can read', true, 1_024, ['warning database.permissions']],
    ['are on an almost full disk', false, 256, ['warning database.space']],
    ['are on a full disk', false, 0, ['problem database.space']],
  ])('returns the expected findings for files that %s', (_case, isReadable, freeMib, expected) => {
    const report = { hasLoosePermissions: isReadable, freeBytes: freeMib * 2 ** 20 };
    expect(listWarningsAndProblems(checkDataDir('/data', report))).toEqual(expected);
  });
});

describe('checkOrigins', () => {
  const ORIGIN = 'https://pay.example';
  const DISCOVERY_BODY = { tag: 'payRequest', callback: `${ORIGIN}/.well-known/lnurlp/npub1` };

  const responseWith = (status: number, json: unknown, headers: [string, string][] = []) =>
    ({ outcome: 'responded', status, json, text: '', headers: new Map(headers) }) as const;

  const checkOriginWith = (response: HttpResponse, { isServiceStopped = false } = {}) =>
    checkOrigins(
      { origins: [ORIGIN], probePubkey: null, zapPubkey: null, isServiceStopped },
      { request: async () => response },
    );

  const OTHER_CALLBACK = { ...DISCOVERY_BODY, callback: 'https://other.example/x' };
  const OTHER_ZAP_KEY = { ...DISCOVERY_BODY, nostrPubkey: 'ab' };
  const LNURL_ERROR = { status: 'ERROR', reason: 'Mint unavailable.' };
  const REDIRECT = responseWith(301, '', [['location', 'https://www.example']]);
  const UNREACHABLE: HttpResponse = { outcome: 'unreachable', reason: 'name not found' };

  it.each<[string, HttpResponse, string]>([
    ['leads to the service', responseWith(200, DISCOVERY_BODY), 'ok origin.reachable'],
    ['cannot be reached', UNREACHABLE, 'problem origin.reachable'],
    ['leads to a proxy that drops Host', responseWith(200, OTHER_CALLBACK), 'problem origin.host'],
    ['leads to another zap key', responseWith(200, OTHER_ZAP_KEY), 'problem origin.zap_key'],
    ['answers payers with an error', responseWith(200, LNURL_ERROR), 'problem origin.discovery'],
    ['redirects', REDIRECT, 'problem origin.redirect'],
    ['leads to a home page', responseWith(200, '<h1>Hello</h1>'), 'problem origin.elsewhere'],
    ['has a proxy without a service', responseWith(502, ''), 'problem origin.elsewhere'],
  ])('returns the expected finding for an origin that %s', async (_case, response, finding) => {
    expect((await checkOriginWith(response)).map(toCode)).toEqual([finding]);
  });

  it('returns only a warning if no process of the service is running', async () => {
    const [finding] = await checkOriginWith(responseWith(502, ''), { isServiceStopped: true });
    expect(finding).toMatchObject({ level: 'warning', check: 'origin.elsewhere' });
    expect(finding?.advice).toContain('No process of the service is running');
  });
});

it('documents every finding in docs/operations/doctor.md', () => {
  const root = path.resolve(import.meta.dirname, '../../..');
  const sourceFolder = path.join(root, 'src/operator/doctor');
  const sources = readdirSync(sourceFolder)
    .map((file) => readFileSync(path.join(sourceFolder, file), 'utf8'))
    .join('\n');
  const areas = 'settings|database|clock|mint|relay|origin';
  const checksInSource = new Set(sources.match(new RegExp(`(?<=')(?:${areas})\\.\\w+(?=')`, 'g')));
  const page = readFileSync(path.join(root, 'docs/operations/doctor.md'), 'utf8');
  const documentedChecks = new Set(page.match(new RegExp(`(?<=\`)(?:${areas})\\.\\w+(?=\`)`, 'g')));
  expect(documentedChecks).toEqual(checksInSource);
});

function listWarningsAndProblems(findings: Iterable<Finding>): string[] {
  return [...findings].filter(({ level }) => level !== 'ok').map(toCode);
}

function toCode({ level, check }: Finding): string {
  return `${level} ${check}`;
}
