import { existsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { findFreePort } from '../../scripts/server-process.ts';
import { readConfig } from '../../src/config.ts';
import { sqliteFilePath } from '../../src/database/data-dir.ts';
import { openDatabase } from '../../src/database/database.ts';
import { createLogger } from '../../src/log.ts';
import { runDoctor } from '../../src/operator/doctor/doctor.ts';
import type { Finding } from '../../src/operator/doctor/finding.ts';
import { type Service, startService } from '../../src/service.ts';
import {
  createDatabaseWithAlice,
  type DatabaseWithAlice,
} from '../helpers/database/database-with-alice.ts';
import { createDataDir, isPostgres } from '../helpers/database/test-database.ts';
import { eventually } from '../helpers/eventually.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { FakeNostrRelay } from '../helpers/relays/fake-nostr-relay.ts';
import { findUnreachableRelayUrl, startFakeRelay } from '../helpers/relays/start-fake-relay.ts';
import { TEST_ZAP_SECRET_KEY } from '../helpers/relays/zap-requests.ts';
import { DISABLED_LIMITS_ENV } from '../helpers/service/disabled-limits.ts';
import { runNutpostCommand } from '../helpers/service/nutpost-process.ts';
import {
  assignNewTestMint,
  TEST_JWT_SECRET,
  TEST_TREASURY_SECRET,
} from '../helpers/service/test-environment.ts';

/** Warnings about the test settings, and about a PostgreSQL server that is tuned for tests. */
const EXPECTED_WARNINGS = [
  ...(isPostgres ? ['warning database.durability'] : []),
  'warning settings.private_networks',
  'warning settings.public_origins',
];

describe('nutpost doctor while the service runs', () => {
  let mint: TestMint;
  let relay: FakeNostrRelay;
  let prepared: DatabaseWithAlice;
  let service: Service;
  let origin: string;
  let env: Record<string, string>;

  beforeAll(async () => {
    [mint, relay, prepared] = await Promise.all([
      TestMint.start(),
      FakeNostrRelay.start(),
      createDatabaseWithAlice(),
    ]);
    const port = await findFreePort('127.0.0.1');
    origin = `http://127.0.0.1:${port}`;
    env = {
      ...prepared.env,
      ...DISABLED_LIMITS_ENV,
      PORT: String(port),
      PUBLIC_ORIGINS: origin,
      TRUST_PROXY: '10.1.2.3',
      DEFAULT_MINT_URL: mint.url,
      ALLOW_PRIVATE_NETWORKS: 'true',
      ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY,
      ZAP_RELAYS: relay.url,
      USERNAME_PRICE_SAT: '21',
      TREASURY_SECRET: TEST_TREASURY_SECRET,
    };
    service = await startService(readConfig(env), { log: createLogger('silent') });
  });

  afterAll(async () => {
    await service.stop();
    await Promise.all([relay.close(), mint.close()]);
    await prepared.remove();
  });

  it('reports no problems, exits with 0, and prints no secrets', async () => {
    const { code, stdout, stderr } = await runNutpostCommand(['doctor', '--json'], env);
    const { problemCount, findings } = JSON.parse(stdout);
    expect({ code, stderr, problemCount }).toEqual({ code: 0, stderr: '', problemCount: 0 });
    expect(issueCodesOf(findings)).toEqual(EXPECTED_WARNINGS);
    expect(findings.map(({ check }: Finding) => check)).toEqual(
      expect.arrayContaining([
        'settings.valid',
        'database.reachable',
        'database.migrations',
        'database.processes',
        'clock.time',
        'mint.reachable',
        'mint.amounts',
        'mint.locking',
        'mint.updates',
        'mint.collect_deadline',
        'mint.usernames',
        'relay.reachable',
        'origin.reachable',
      ]),
    );
    for (const secret of [TEST_ZAP_SECRET_KEY, TEST_TREASURY_SECRET, TEST_JWT_SECRET]) {
      expect(stdout).not.toContain(secret);
    }
  });

  it('reports missing mint features and URLs at which there is no mint', async () => {
    const limitedMint = await startTestMint({
      supportsLocking: false,
      batchCheck: 'absent',
      hasWebSocket: false,
      supportsRestore: false,
      minAmountSat: 2_000_000,
      version: 'Other/1.0',
    });
    const envWithLimitedMint = { ...env, DEFAULT_MINT_URL: limitedMint.url };
    expect(await findIssues(envWithLimitedMint)).toEqual(
      [
        ...EXPECTED_WARNINGS,
        'problem mint.amounts',
        'warning mint.collect_deadline',
        'warning mint.locking',
        'warning mint.updates',
        'problem mint.usernames',
      ].sort(),
    );
    expect(await findIssues({ ...envWithLimitedMint, DEFAULT_LOCK_QUOTES: 'true' })).toContain(
      'problem mint.locking',
    );
    const user = new RecipientClient(origin);
    await user.send('PATCH', '/api/v2/user/lock', { lockQuotes: true });
    expect(await findIssues(envWithLimitedMint)).toContain('problem mint.locking');
    await user.send('PATCH', '/api/v2/user/lock', { lockQuotes: false });
    for (const url of [UNUSED_ORIGIN, `${service.url}/nowhere`]) {
      for (const setting of ['DEFAULT_MINT_URL', 'SITE_MINTS']) {
        expect(await findIssues({ ...env, [setting]: url })).toContain('problem mint.reachable');
      }
    }
  });

  it('reports an unreachable relay as a warning if another relay works, otherwise as a problem', async () => {
    const unreachableUrl = await findUnreachableRelayUrl();
    const rejectingRelay = await startFakeRelay({ handshake: 403 });
    const findRelayIssues = async (relays: string[]) =>
      (await findIssues({ ...env, ZAP_RELAYS: relays.join(',') })).filter(
        (code) => !EXPECTED_WARNINGS.includes(code),
      );
    expect(await findRelayIssues([relay.url, unreachableUrl])).toEqual(['warning relay.reachable']);
    expect(await findRelayIssues([rejectingRelay.url, unreachableUrl])).toEqual(
      Array(2).fill('problem relay.reachable'),
    );
  });

  it('requests the address of a member if the server is for members', async () => {
    const envForMembers = { ...env, RECIPIENTS: 'members', USERNAME_PRICE_SAT: '0' };
    const withoutMembers = findingCodesOf(await listFindings(envForMembers));
    expect(withoutMembers).toContain('warning settings.members');
    expect(withoutMembers).not.toContain('ok origin.reachable');
    await runNutpostCommand(['member', 'add', prepared.alice.npub], env);
    const withMember = findingCodesOf(await listFindings(envForMembers));
    expect(withMember).not.toContain('warning settings.members');
    expect(withMember).toContain('ok origin.reachable');
  });

  // Last, because the other tests expect no such problems.
  it('reports mints of users that do not respond, and a proxy that TRUST_PROXY does not contain', async () => {
    const wallet = new RecipientClient(origin);
    const userMint = await assignNewTestMint(wallet);
    await requestJson(origin, `/.well-known/lnurlp/${wallet.npub}?amount=21000`);
    expect(findingCodesOf(await listFindings(env))).toContain('ok mint.user_mints');
    expect(await findIssues(env)).toEqual(EXPECTED_WARNINGS);

    const envWithAllowedMints = { ...env, ALLOWED_MINTS: mint.url };
    const findings = await listFindings(envWithAllowedMints);
    const notAllowed = findings.find(({ check }) => check === 'mint.not_allowed');
    expect(notAllowed?.message).toBe(
      `${userMint.url} is not in ALLOWED_MINTS, but is the mint of ${wallet.npub}`,
    );

    await userMint.close();
    await fetch(origin, { headers: { 'x-forwarded-for': '203.0.113.7' } });
    // The process stores the address of the proxy when it renews its lease.
    await eventually(async () =>
      expect(await findIssues(env)).toEqual(
        ['problem settings.trust_proxy', ...EXPECTED_WARNINGS, 'warning mint.user_mints'].sort(),
      ),
    );
    const messages = (await listFindings(env)).map(({ message }) => message).join('\n');
    expect(messages).toContain(`${userMint.url}, where payments to users are open, cannot be used`);
    expect(messages).toContain('the reverse proxy 127.0.0.1, which TRUST_PROXY does not contain');
  });
});

describe('nutpost doctor while the service is stopped', () => {
  it('skips the origin check before the first start and creates no files', async () => {
    const mint = await startTestMint();
    const dataDir = await createTestDataDir();
    const missingDir = path.join(dataDir, 'not', 'there', 'yet');
    const { code, stdout } = await runNutpostCommand(['doctor'], {
      DEFAULT_MINT_URL: mint.url,
      DATA_DIR: missingDir,
      PORT: String(await findFreePort('127.0.0.1')),
    });
    expect(stdout).toContain(`No database in ${missingDir} yet; the first start creates it.`);
    expect(stdout).toContain('-> No process of the service is running: start the service,');
    expect(stdout).toMatch(/\n0 problems, \d warnings\.\n$/);
    expect(code).toBe(0);
    expect(existsSync(path.join(dataDir, 'not'))).toBe(false);
  });

  it('reports an invalid setting as a problem and unknown settings as warnings', async () => {
    const { code, stdout } = await runNutpostCommand(['doctor'], {
      PORT: 'abc',
      LIMIT_REQUEST: '5',
      ZAP_KEY: 'nsec1',
      DATABSE_URL: 'postgres://localhost/nutpost',
      limit_invoices: '5',
    });
    expect(code).toBe(1);
    expect(stdout).toContain("PROBLEM  PORT must be a whole number from 0 to 65535 (got 'abc').");
    expect(stdout).toContain('WARNING  LIMIT_REQUEST is not a setting of nutpost');
    expect(stdout).toContain('Did you mean LIMIT_REQUESTS?');
    expect(stdout).toContain('WARNING  ZAP_KEY is not a setting of nutpost');
    expect(stdout).toContain('Did you mean DATABASE_URL?');
    expect(stdout).toContain('Did you mean LIMIT_INVOICES?');
    expect(stdout).not.toContain('nsec1');
  });

  const PAGE_BYTES = 4_096;

  it.each([
    ['is not a database', 0, 'problem database.reachable'],
    ['is corrupted', 20 * PAGE_BYTES, 'problem database.damage'],
  ])(
    'reports a database file that %s and completes the other checks',
    async (_case, offsetBytes, expectedCode) => {
      const mint = await startTestMint();
      const dataDir = await createTestDataDir();
      await (await openDatabase({ kind: 'sqlite', dataDir }, () => undefined)).close();
      const file = await open(sqliteFilePath(dataDir), 'r+');
      await file.write(Buffer.alloc(PAGE_BYTES, 'broken'), { position: offsetBytes });
      await file.close();
      const codes = findingCodesOf(
        await listFindings({ ...developmentEnv(mint), DATA_DIR: dataDir }),
      );
      expect(codes).toContain(expectedCode);
      expect(codes).toContain('ok mint.reachable');
    },
  );

  it('reports a mint that rejects the check with 429', async () => {
    const rejectingMint = await startTestMint({ rateLimit: { requestsPerWindow: 0 } });
    expect(await findIssues(developmentEnv(rejectingMint))).toContain('warning mint.rate_limit');
  });
});

const UNUSED_ORIGIN = 'http://127.0.0.1:1';

function developmentEnv(mint: TestMint): Record<string, string> {
  return { DEFAULT_MINT_URL: mint.url, ALLOW_PRIVATE_NETWORKS: 'true', PORT: '0' };
}

async function createTestDataDir(): Promise<string> {
  const { dataDir, remove } = await createDataDir();
  onTestFinished(remove);
  return dataDir;
}

function listFindings(env: Record<string, string>): Promise<Finding[]> {
  return runDoctor(() => undefined, env);
}

async function findIssues(env: Record<string, string>): Promise<string[]> {
  return issueCodesOf(await listFindings(env));
}

function issueCodesOf(findings: readonly Finding[]): string[] {
  return findingCodesOf(findings.filter(({ level }) => level !== 'ok')).sort();
}

function findingCodesOf(findings: readonly Finding[]): string[] {
  return findings.map(({ level, check }) => `${level} ${check}`);
}
