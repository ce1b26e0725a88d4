import { describe, expect, it, onTestFinished } from 'vitest';
import { ReachProof } from '../../src/auth/reach-proof.ts';
import type { Finding } from '../../src/domain/finding.ts';
import { parseMintInfo } from '../../src/domain/mint-info.ts';
import { unknownSettings } from '../../src/domain/unknown-settings.ts';
import { guardedSocketConnector } from '../../src/net/guarded-socket.ts';
import { type LookedUp, lookUpName } from '../../src/net/look-up-name.ts';
import { nameResolver } from '../../src/net/resolve-names.ts';
import type { DataDirFacts } from '../../src/store/data-dir-facts.ts';
import type { DatabaseContents, DatabaseFacts } from '../../src/store/examination-store.ts';
import {
  aheadMs,
  checkClock,
  hearingTimes,
  type ToldTime,
  ToldTimes,
} from '../../src/usecases/diagnose/clock.ts';
import { checkDatabase, type DatabaseToCheck } from '../../src/usecases/diagnose/database.ts';
import { checkMints } from '../../src/usecases/diagnose/mints.ts';
import { checkNames } from '../../src/usecases/diagnose/names.ts';
import { checkForwarding } from '../../src/usecases/diagnose/origin-forwarding.ts';
import { checkRelays } from '../../src/usecases/diagnose/relays.ts';
import { startDnsServer } from '../helpers/dns-server.ts';
import { startRelay } from '../helpers/relays.ts';

describe('settings', () => {
  const known = [
    'HOST',
    'PORT',
    'LIMIT_REQUESTS',
    'ZAP_SECRET_KEY',
    'ZAP_RELAYS',
    'DATABASE_URL',
    'TRUST_PROXY',
    'METRICS_PORT',
  ];

  it.each([
    ['LIMIT_REQUEST', 'LIMIT_REQUESTS'],
    ['limit_requests', 'LIMIT_REQUESTS'],
    ['ZAP_KEY', 'ZAP_SECRET_KEY'],
    ['ZAP_RELAY', 'ZAP_RELAYS'],
    ['DATABASEURL', 'DATABASE_URL'],
    ['TRUST_PROXIES', 'TRUST_PROXY'],
    ['METRICS_ADDR', 'METRICS_PORT'],
    ['PROT_PORT', null],
    // Of Kubernetes, in every container of a service that is called so.
    ['NUTPOST_SERVICE_HOST', null],
    ['NUTPOST_SERVICE_PORT', null],
    ['NUTPOST_PORT', null],
    ['NUTPOST_PORT_3000_TCP', null],
  ])('%s is taken for %s', (name, meant) => {
    const found = unknownSettings([name], known);
    expect(found).toEqual(meant === null ? [] : [{ name, meant }]);
  });

  it('what begins as ours do is named even where nothing is near', () => {
    expect(unknownSettings(['ZAP_XYZ_COLOUR_SCHEME'], known)).toEqual([
      { name: 'ZAP_XYZ_COLOUR_SCHEME', meant: null },
    ]);
  });

  it('what every environment has is left alone', () => {
    const usual = ['PATH', 'HOME', 'HOSTNAME', 'PWD', 'LANG', 'USER', 'TERM', 'NODE_ENV', 'SHLVL'];
    expect(unknownSettings([...usual, ...known], known)).toEqual([]);
  });
});

describe('names of hosts', () => {
  const check = (found: Record<string, LookedUp>, allowPrivateNetworks = false) =>
    checkNames({
      urls: [...Object.keys(found), '127.0.0.1', 'localhost'].map((name) => `https://${name}/x`),
      publicOrigins: [],
      allowPrivateNetworks,
      lookUpName: async (name) => found[name] ?? unasked(name),
    });

  it('those that the name servers know are all right, and addresses are nobody’s to ask', async () => {
    const found = await check({ 'mint.example': { outcome: 'found', tookMs: 12 } });
    expect(codesOf(found)).toEqual(['ok names.found']);
  });

  it('one that takes long, one that nobody knows and one of the hosts file are told apart', async () => {
    const failed = { outcome: 'failed', reason: 'name not found', tookMs: 12 } as const;
    const found = {
      'slow.example': { outcome: 'found', tookMs: 2_100 },
      'gone.example': { ...failed, isKnownToSystem: false },
      'here.example': { ...failed, isKnownToSystem: true },
    } as const;
    expect(codesOf(await check(found))).toEqual([
      'warning names.slow',
      'problem names.unknown',
      'warning names.local_only',
    ]);
    expect(codesOf(await check(found, true))).not.toContain('warning names.local_only');
  });

  it('the service’s own name may stand in the hosts file alone, unless a mint has it too', async () => {
    const inHostsFile = {
      outcome: 'failed',
      reason: 'name not found',
      tookMs: 12,
      isKnownToSystem: true,
    } as const;
    const checkOwn = (urls: string[]) =>
      checkNames({
        urls,
        publicOrigins: ['https://pay.example'],
        allowPrivateNetworks: false,
        lookUpName: async (name) =>
          name === 'pay.example' ? inHostsFile : { outcome: 'found', tookMs: 12 },
      });
    const [found, ...others] = await checkOwn(['https://mint.example']);
    expect(found?.what).toBe('The name servers know mint.example');
    expect(others).toEqual([]);
    expect(codesOf(await checkOwn(['https://pay.example/mint']))).toEqual([
      'warning names.local_only',
    ]);
  });

  it('the name servers are asked, and a silent one is not taken for one that knows no such name', async () => {
    const server = await startDnsServer((name) =>
      name === 'mint.example' ? [{ type: 'A', address: '192.0.2.7' }] : [],
    );
    onTestFinished(() => server.close());
    const resolve = nameResolver([server.address]);
    expect(await lookUpName('mint.example', resolve)).toMatchObject({ outcome: 'found' });
    expect(await lookUpName('gone.example', resolve)).toMatchObject({
      outcome: 'failed',
      reason: 'name not found',
    });
  });

  function unasked(name: string): never {
    throw new Error(`${name} was asked for`);
  }
});

describe('the clock', () => {
  const NOW_MS = 1_800_000_000_000;
  const told = (saidMs: number, teller = 'mint.example'): ToldTime => ({
    teller,
    saidMs,
    resolutionMs: 1_000,
    askedAtMs: NOW_MS,
    heardAtMs: NOW_MS + 200,
  });

  it('a time that can be right, given the way and the seconds that are cut off, is right', () => {
    expect([NOW_MS, NOW_MS - 900, NOW_MS + 200].map((said) => aheadMs(told(said)))).toEqual([
      0, 0, 0,
    ]);
    expect(aheadMs(told(NOW_MS - 5_000))).toBe(4_000);
    expect(aheadMs(told(NOW_MS + 5_200))).toBe(-5_000);
  });

  it('what a cache has kept does not tell the time', async () => {
    const times = new ToldTimes();
    const answer = (headers: Record<string, string>) => ({
      request: async () => ({
        outcome: 'answered' as const,
        status: 200,
        headers: new Map(Object.entries(headers)),
        text: '',
      }),
    });
    const date = new Date(NOW_MS - 60_000).toUTCString();
    const ask = (headers: Record<string, string>) =>
      hearingTimes(answer(headers), times, () => NOW_MS).request({
        method: 'GET',
        url: 'https://mint.example/v1/info',
      });
    await ask({ date, age: '60' });
    expect(times.all).toEqual([]);
    await ask({ date });
    expect(times.all).toMatchObject([{ teller: 'mint.example', saidMs: NOW_MS - 60_000 }]);
  });

  it('one stranger who is wrong among several does not make this clock wrong', () => {
    const strangers = [told(NOW_MS), told(NOW_MS, 'b'), told(NOW_MS - 3_600_000, 'c')];
    expect(codesOf(checkClock(null, strangers))).toEqual(['ok clock.right']);
  });

  it('a clock that all others contradict is wrong, and where it is by much that is a problem', () => {
    const [finding] = checkClock(null, [told(NOW_MS + 42_200), told(NOW_MS + 42_200, 'b')]);
    expect(finding).toMatchObject({ level: 'problem', code: 'clock.wrong' });
    expect(finding?.what).toContain('42 s behind that of 2 others');
    expect(codesOf(checkClock(null, [told(NOW_MS - 6_000)]))).toEqual(['warning clock.wrong']);
  });

  it('processes must agree with their database, whatever strangers say', () => {
    const database = { ...told(NOW_MS + 4_200), resolutionMs: 0 };
    expect(codesOf(checkClock(database, []))).toEqual([
      'problem clock.database',
      'note clock.unknown',
    ]);
  });
});

describe('the database', () => {
  it('one that is as it should be is all right', () => {
    expect(codesOf(checkDatabase(server()))).toEqual([
      'ok database.reached',
      'ok database.heard',
      'ok database.tables',
      'ok database.processes',
    ]);
  });

  it.each<[string, Partial<DatabaseFacts>, string]>([
    ['is older than what is tried', { versionNumber: 140_010 }, 'problem database.version'],
    ['cannot keep every character', { encoding: 'SQL_ASCII' }, 'problem database.encoding'],
    ['is a standby', { isReadOnly: true }, 'problem database.read_only'],
    ['may lose what it answered', { isDurable: false }, 'warning database.durability'],
    ['is nearly full of connections', { usedConnections: 90 }, 'warning database.connections'],
    [
      'is of a newer nutpost',
      { unknownMigrations: ['0042_future'], contents: null },
      'problem database.newer',
    ],
    [
      'is of an older nutpost',
      { missingMigrations: ['0005_zaps'], contents: null },
      'note database.older',
    ],
    [
      'is only to be read',
      { missingRights: ['insert: users'], contents: null },
      'problem database.rights',
    ],
    [
      'lets nobody make tables',
      { missingMigrations: ['0005_zaps'], contents: null, canCreateTables: false },
      'problem database.rights',
    ],
  ])('one that %s is found', (_what, facts, found) => {
    expect(codesOf(checkDatabase(server(facts)))).toContain(found);
  });

  it('a pooler that passes no notifications on is found', () => {
    expect(codesOf(checkDatabase({ ...server(), isHeard: false }))).toContain(
      'problem database.unheard',
    );
  });

  it('ecash that the secret does not open keeps the service from starting', () => {
    const earned = server({}, { hasSealed: true, treasuryKeyId: 'aa' });
    for (const treasuryKeyId of [null, 'bb']) {
      expect(codesOf(checkDatabase({ ...earned, treasuryKeyId }))).toContain(
        'problem treasury.secret',
      );
    }
    const codes = codesOf(checkDatabase({ ...earned, treasuryKeyId: 'aa' }));
    expect(codes.filter((code) => code.includes('treasury'))).toEqual([]);
  });

  it('a data directory that cannot be written to, or is full, is found', () => {
    const dataDir: DataDirFacts = {
      path: '/data',
      hasDatabase: false,
      trouble: null,
      owner: 'us',
      freeBytes: 5e10,
    };
    const absent: DatabaseToCheck = { ...server(), look: { outcome: 'absent' }, dataDir };
    expect(codesOf(checkDatabase(absent))).toEqual(['note database.absent']);
    const closed: DatabaseToCheck = { ...absent, look: { outcome: 'closed' } };
    const forbidden = { ...dataDir, trouble: 'EACCES: permission denied' };
    expect(codesOf(checkDatabase({ ...closed, dataDir: forbidden }))).toEqual([
      'problem database.directory',
    ]);
    const others = { ...dataDir, owner: 'others' } as const;
    expect(codesOf(checkDatabase({ ...closed, dataDir: others }))).toEqual([
      'problem database.owner',
    ]);
    const full = { ...dataDir, freeBytes: 5e8 };
    expect(codesOf(checkDatabase({ ...absent, dataDir: full }))).toContain(
      'warning database.space',
    );
  });

  function server(
    facts: Partial<DatabaseFacts> = {},
    contents: Partial<DatabaseContents> = {},
  ): DatabaseToCheck {
    const found: DatabaseFacts = {
      version: '17.6',
      versionNumber: 170_006,
      nowMs: 0,
      encoding: 'UTF8',
      isDurable: true,
      isReadOnly: false,
      canCreateTables: true,
      maxConnections: 97,
      usedConnections: 12,
      missingRights: [],
      missingMigrations: [],
      unknownMigrations: [],
      contents: {
        processes: 2,
        receiptKey: null,
        openReceipts: 0,
        hasSealed: false,
        treasuryKeyId: null,
        rateLimits: null,
        relays: [],
        ...contents,
      },
      ...facts,
    };
    const look = { outcome: 'seen', facts: found } as const;
    return { look, dataDir: null, isHeard: true, zapPubkey: null, treasuryKeyId: null };
  }
});

describe('mints and relays', () => {
  const connect = guardedSocketConnector({ allowPrivateNetworks: true });
  const clock = () => 1_800_000_000_000;

  it('reports the rate limit of a mint that a running service has found out', async () => {
    const info = parseMintInfo({ nuts: { '4': { methods: [{ method: 'bolt11', unit: 'sat' }] } } });
    if (info === null) {
      throw new Error('no info');
    }
    const client = { readInfo: async () => ({ outcome: 'found', info }) as const };
    const create = { count: 16, isElastic: true };
    const mints = {
      defaultMintUrl: 'https://mint.example',
      defaultLockQuotes: false,
      sendable: { minMsat: 1_000, maxMsat: 1_000_000_000 },
      paidNamesMintUrl: null,
    };
    const found = await checkMints(
      { ...mints, rateLimits: { create } },
      { client, connect, clock },
    );
    expect(found.find(({ code }) => code === 'mint.limit')?.what).toContain('16 invoices a minute');
    const before = await checkMints({ ...mints, rateLimits: null }, { client, connect, clock });
    expect(codesOf(before).filter((code) => code.includes('limit'))).toEqual([]);
  });

  it('a relay that answers and takes no receipts, and one that asks who is there, are told', async () => {
    const relays = await Promise.all([startRelay(), startRelay({ auth: 'at_connect' })]);
    const [choosy = '', curious = ''] = relays.map(({ url }) => url);
    const known = [{ url: choosy, failures: 7, lastWord: 'blocked: not\u001b[31m here' }];
    const times = new ToldTimes();
    const found = await checkRelays(
      { relays: [choosy, curious], hasZapKey: false, known },
      { connect, times, clock: Date.now },
    );
    expect(codesOf(found)).toEqual([
      'ok relay.reached',
      'warning relay.failing',
      'note relay.auth',
    ]);
    expect(found[1]?.what).toContain('7 times in a row: blocked: not[31m here');
  });
});

describe('the way here', () => {
  const origin = 'https://pay.example';
  const seen = {
    addresses: ['10.0.0.2'] as [string],
    unbelieved: 0,
    protocol: 'https',
    host: 'pay.example',
    origin,
    origins: [origin],
  };

  it('a proxy with TLS that does not say for whom it asks is found', async () => {
    const nobody = { fetch: null as never, connect: null as never, reachProof: null };
    const parts = { ...nobody, tryToListen: async () => 'free', clock: () => 0 };
    expect(codesOf(await checkForwarding(origin, seen, false, parts))).toEqual([
      'ok origin.host',
      'problem proxy.silent',
    ]);
  });

  it('nobody without the secret can ask, pretend, or use an old question', async () => {
    const proof = new ReachProof('a secret for tests, of 32 letters and more');
    const stranger = new ReachProof('another secret for tests, of 32 letters');
    const question = await proof.ask('nonce', 1_000);
    const answer = (await proof.answer(question, seen, 1_000)) ?? '';
    expect(await proof.read(answer, 'nonce', 1_000)).toEqual(seen);
    expect(await proof.read(answer, 'another nonce', 1_000)).toBeNull();
    expect(await proof.read(question, 'nonce', 1_000)).toBeNull();
    expect(await proof.answer(answer, seen, 1_000)).toBeNull();
    expect(await proof.answer(question, seen, 2_000)).toBeNull();
    expect(await proof.answer(await stranger.ask('nonce', 1_000), seen, 1_000)).toBeNull();
    expect(await stranger.read(answer, 'nonce', 1_000)).toBeNull();
  });
});

function codesOf(findings: readonly Finding[]): string[] {
  return findings.map(({ level, code }) => `${level} ${code}`);
}
