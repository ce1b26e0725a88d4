import { existsSync } from 'node:fs';
import { chmod, open } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { findFreePort } from '../../scripts/server-process.ts';
import { readConfig } from '../../src/config.ts';
import { sqliteFilePath } from '../../src/database/data-dir.ts';
import { openDatabase, openExistingDatabase } from '../../src/database/database.ts';
import { createLogger } from '../../src/log.ts';
import type { MintInfo } from '../../src/mints/mint-info.ts';
import { runDoctor } from '../../src/operator/doctor/doctor.ts';
import type { Finding } from '../../src/operator/doctor/finding.ts';
import { type Service, startService } from '../../src/service.ts';
import { Store } from '../../src/store.ts';
import { createDataDir, isPostgres } from '../helpers/database.ts';
import { NO_LIMITS } from '../helpers/no-limits.ts';
import { runNutpostCommand } from '../helpers/nutpost-process.ts';
import { createPreparedDatabase, type PreparedDatabase } from '../helpers/prepared-database.ts';
import { startMint } from '../helpers/start-test-mint.ts';
import { findUnreachableRelayUrl, startRelay } from '../helpers/start-test-relay.ts';
import { TEST_TREASURY_SECRET } from '../helpers/test-environment.ts';
import { TestRelay } from '../helpers/test-relay.ts';
import { TEST_ZAP_SECRET_KEY } from '../helpers/zap-requests.ts';

/** Caused by the test settings and by a database server that is tuned for tests. */
const EXPECTED_WARNINGS = [
  ...(isPostgres ? ['warning database.durability'] : []),
  'warning settings.private_networks',
  'warning settings.public_origins',
];

describe('nutpost doctor while the service runs', () => {
  let mint: TestMint;
  let relay: TestRelay;
  let prepared: PreparedDatabase;
  let service: Service;
  let origin: string;
  let env: Record<string, string>;

  beforeAll(async () => {
    [mint, relay, prepared] = await Promise.all([
      TestMint.start(),
      TestRelay.start(),
      createPreparedDatabase(),
    ]);
    const port = await findFreePort('127.0.0.1');
    origin = `http://127.0.0.1:${port}`;
    env = {
      ...prepared.env,
      ...NO_LIMITS,
      PORT: String(port),
      PUBLIC_ORIGINS: origin,
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
    const { problems, warnings, findings } = JSON.parse(stdout);
    expect({ code, stderr, problems }).toEqual({ code: 0, stderr: '', problems: 0 });
    expect(issueCodes(findings)).toEqual(EXPECTED_WARNINGS);
    expect(warnings).toBe(EXPECTED_WARNINGS.length);
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
        'mint.usernames',
        'relay.reachable',
        'origin.reachable',
      ]),
    );
    for (const name of ['ZAP_SECRET_KEY', 'TREASURY_SECRET', 'JWT_SECRET']) {
      expect(stdout).not.toContain(env[name] ?? TEST_ZAP_SECRET_KEY);
    }
  });

  it('reports missing mint features and URLs that are not a mint', async () => {
    const limitedMint = await startMint({
      supportsLocking: false,
      batch: 'absent',
      hasWebSocket: false,
      supportsRestore: false,
      minAmountSat: 2_000_000,
    });
    const envWithLimitedMint = { ...env, DEFAULT_MINT_URL: limitedMint.url };
    expect(await findIssues(envWithLimitedMint)).toEqual(
      [
        ...EXPECTED_WARNINGS,
        'problem mint.amounts',
        'warning mint.locking',
        'warning mint.updates',
        'problem mint.usernames',
      ].sort(),
    );
    const locked = await findIssues({ ...envWithLimitedMint, DEFAULT_LOCK_QUOTES: 'true' });
    expect(locked).toContain('problem mint.locking');
    for (const url of [UNUSED_ORIGIN, `${service.url}/nowhere`]) {
      expect(await findIssues({ ...env, DEFAULT_MINT_URL: url })).toContain(
        'problem mint.reachable',
      );
    }
  });

  it('reports unreachable relays as a warning if another relay works, otherwise as a problem', async () => {
    const unreachable = await findUnreachableRelayUrl();
    const rejecting = await startRelay({ handshake: 403 });
    const relayFindings = async (relays: string[]) =>
      (await findIssues({ ...env, ZAP_RELAYS: relays.join(',') })).filter(
        (each) => !EXPECTED_WARNINGS.includes(each),
      );
    expect(await relayFindings([relay.url, unreachable])).toEqual(['warning relay.reachable']);
    expect(await relayFindings([rejecting.url, unreachable])).toEqual(
      Array(2).fill('problem relay.reachable'),
    );
  });
});

describe('nutpost doctor while the service is stopped', () => {
  it('skips the origin check before the first start and creates no files', async () => {
    const mint = await startMint();
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

  it('lists all invalid and misspelled settings', async () => {
    const { code, stdout } = await runNutpostCommand(['doctor'], {
      PORT: 'abc',
      LIMIT_REQUEST: '5',
      ZAP_KEY: 'nsec1',
      DATABSE_URL: 'postgres://localhost/nutpost',
      limit_invoices: '5',
    });
    expect(code).toBe(1);
    expect(stdout).toContain('PROBLEM  PORT: must be a whole number.');
    expect(stdout).toContain('WARNING  LIMIT_REQUEST is not a setting of nutpost');
    expect(stdout).toContain('Did you mean LIMIT_REQUESTS?');
    expect(stdout).toContain('WARNING  ZAP_KEY is not a setting of nutpost');
    expect(stdout).toContain('Did you mean DATABASE_URL?');
    expect(stdout).toContain('Did you mean LIMIT_INVOICES?');
    expect(stdout).not.toContain('nsec1');
  });

  it.each([
    ['is not a database', 0, 'problem database.reachable'],
    ['is corrupted', 20 * 4_096, 'problem database.damage'],
  ])(
    'reports a database file that %s and completes the other checks',
    async (_case, position, expected) => {
      const mint = await startMint();
      const dataDir = await createDatabase();
      const file = await open(sqliteFilePath(dataDir), 'r+');
      await file.write(Buffer.alloc(4_096, 'broken'), { position });
      await file.close();
      const found = findingCodes(await examine({ ...developmentEnv(mint), DATA_DIR: dataDir }));
      expect(found).toContain(expected);
      expect(found).toContain('ok mint.reachable');
    },
  );

  it('reports files that other users can read and how to fix the permissions', async () => {
    const mint = await startMint();
    const dataDir = await createDatabase();
    await chmod(sqliteFilePath(dataDir), 0o640);
    const env = { ...developmentEnv(mint), DATA_DIR: dataDir };
    const findings = await examine(env);
    expect(findings.find(({ check }) => check === 'database.permissions')).toMatchObject({
      level: 'warning',
      what: `Other users of this machine can access ${dataDir} or files in it`,
      advice: expect.stringContaining(`chmod -R go= ${dataDir}`),
    });
    await chmod(sqliteFilePath(dataDir), 0o600);
    expect(await findIssues(env)).not.toContain('warning database.permissions');
  });

  it('reports a learned mint rate limit and a mint that rejects the check with 429', async () => {
    const mint = await startMint();
    const prepared = await createPreparedDatabase();
    onTestFinished(() => prepared.remove());
    const env = { ...developmentEnv(mint), ...prepared.env };
    const database = await openExistingDatabase(prepared.location, () => undefined);
    const { mints } = new Store(database.db);
    await mints.saveInfo(mint.url, {} as MintInfo, Date.now());
    await mints.saveRateLimit(mint.url, 'create', { count: 16, isElastic: true });
    await database.close();
    const learned = (await examine(env)).find(({ check }) => check === 'mint.rate_limit');
    expect(learned?.what).toContain('about 16 invoices a minute');

    const strict = await startMint({ rateLimit: { requestsPerWindow: 0 } });
    expect(await findIssues({ ...env, DEFAULT_MINT_URL: strict.url })).toContain(
      'warning mint.rate_limit',
    );
  });
});

/** No server listens on this port. */
const UNUSED_ORIGIN = 'http://127.0.0.1:1';

function developmentEnv(mint: TestMint): Record<string, string> {
  return { DEFAULT_MINT_URL: mint.url, ALLOW_PRIVATE_NETWORKS: 'true', PORT: '0' };
}

async function createTestDataDir(): Promise<string> {
  const { dataDir, remove } = await createDataDir();
  onTestFinished(remove);
  return dataDir;
}

/** Creates a data directory with an SQLite database that no process has open. */
async function createDatabase(): Promise<string> {
  const dataDir = await createTestDataDir();
  const database = await openDatabase({ kind: 'sqlite', dataDir }, () => undefined);
  await database.close();
  return dataDir;
}

function examine(env: Record<string, string>): Promise<Finding[]> {
  return runDoctor(() => undefined, env);
}

async function findIssues(env: Record<string, string>): Promise<string[]> {
  return issueCodes(await examine(env));
}

/** Returns the codes of all warnings and problems, sorted. */
function issueCodes(findings: readonly Finding[]): string[] {
  return findingCodes(findings.filter(({ level }) => level !== 'ok')).sort();
}

function findingCodes(findings: readonly Finding[]): string[] {
  return findings.map(({ level, check }) => `${level} ${check}`);
}
