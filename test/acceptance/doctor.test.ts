import { existsSync } from 'node:fs';
import { chmod, open } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { freePort } from '../../scripts/server-process.ts';
import { readConfig } from '../../src/config.ts';
import { sqliteFile } from '../../src/database/data-dir.ts';
import { openDatabase, openExistingDatabase } from '../../src/database/database.ts';
import { openLog } from '../../src/log.ts';
import type { MintInfo } from '../../src/mints/mint-info.ts';
import { examineSetup } from '../../src/operator/doctor/doctor.ts';
import type { Finding } from '../../src/operator/doctor/finding.ts';
import { type Service, startService } from '../../src/service.ts';
import { Store } from '../../src/store.ts';
import { createDataDir, hasServer } from '../helpers/database.ts';
import { startMint } from '../helpers/mints.ts';
import { NO_LIMITS } from '../helpers/no-limits.ts';
import { runNutpost } from '../helpers/nutpost-process.ts';
import { createPlace, type Place } from '../helpers/place.ts';
import { refusingPort, startRelay } from '../helpers/relays.ts';
import { TestRelay } from '../helpers/test-relay.ts';
import { TEST_TREASURY_SECRET } from '../helpers/world.ts';
import { TEST_ZAP_SECRET_KEY } from '../helpers/zap-requests.ts';

/** `nutpost doctor`, beside a running service and without one. */

/** Warnings about the settings of tests, and about a database server that is tuned for tests. */
const USUAL_WARNINGS = [
  ...(hasServer ? ['warning database.durability'] : []),
  'warning settings.private_networks',
  'warning settings.public_origins',
];

describe('beside a running service', () => {
  let mint: TestMint;
  let relay: TestRelay;
  let place: Place;
  let service: Service;
  let origin: string;
  let env: Record<string, string>;

  beforeAll(async () => {
    [mint, relay, place] = await Promise.all([TestMint.start(), TestRelay.start(), createPlace()]);
    const port = await freePort('127.0.0.1');
    origin = `http://127.0.0.1:${port}`;
    env = {
      ...place.env,
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
    service = await startService(readConfig(env), { log: openLog('silent') });
  });

  afterAll(async () => {
    await service.stop();
    await Promise.all([relay.close(), mint.close()]);
    await place.remove();
  });

  it('finds no problem, exits with 0, and prints no secret', async () => {
    const { code, stdout, stderr } = await runNutpost(['doctor', '--json'], env);
    const { problems, warnings, findings } = JSON.parse(stdout);
    expect({ code, stderr, problems }).toEqual({ code: 0, stderr: '', problems: 0 });
    expect(wrongOf(findings)).toEqual(USUAL_WARNINGS);
    expect(warnings).toBe(USUAL_WARNINGS.length);
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

  it('finds a mint that lacks features, or is not a mint', async () => {
    const poor = await startMint({
      locking: false,
      batch: 'absent',
      socket: false,
      restore: false,
      minAmountSat: 2_000_000,
    });
    const withPoor = { ...env, DEFAULT_MINT_URL: poor.url };
    expect(await wrongWith(withPoor)).toEqual(
      [
        ...USUAL_WARNINGS,
        'problem mint.amounts',
        'warning mint.locking',
        'warning mint.updates',
        'problem mint.usernames',
      ].sort(),
    );
    const locked = await wrongWith({ ...withPoor, DEFAULT_LOCK_QUOTES: 'true' });
    expect(locked).toContain('problem mint.locking');
    for (const url of [UNUSED_ORIGIN, `${service.url}/nowhere`]) {
      expect(await wrongWith({ ...env, DEFAULT_MINT_URL: url })).toContain(
        'problem mint.reachable',
      );
    }
  });

  it('finds dead relays: a warning beside a living one, else a problem', async () => {
    const dead = await refusingPort();
    const mute = await startRelay({ handshake: 403 });
    const relaysOf = async (relays: string[]) =>
      (await wrongWith({ ...env, ZAP_RELAYS: relays.join(',') })).filter(
        (each) => !USUAL_WARNINGS.includes(each),
      );
    expect(await relaysOf([relay.url, dead])).toEqual(['warning relay.reachable']);
    expect(await relaysOf([mute.url, dead])).toEqual(Array(2).fill('problem relay.reachable'));
  });
});

describe('without a running service', () => {
  it('expects no answer from the origins before the first start, and creates no file', async () => {
    const mint = await startMint();
    const dataDir = await newDataDir();
    const future = path.join(dataDir, 'not', 'there', 'yet');
    const { code, stdout } = await runNutpost(['doctor'], {
      DEFAULT_MINT_URL: mint.url,
      DATA_DIR: future,
      PORT: String(await freePort('127.0.0.1')),
    });
    expect(stdout).toContain(`No database in ${future} yet; the first start creates it.`);
    expect(stdout).toContain('-> No process of the service is running: start it,');
    expect(stdout).toMatch(/\n0 problems, \d warnings\.\n$/);
    expect(code).toBe(0);
    expect(existsSync(path.join(dataDir, 'not'))).toBe(false);
  });

  it('names all invalid and misspelt settings', async () => {
    const { code, stdout } = await runNutpost(['doctor'], {
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
    ['is no database', 0, 'problem database.reachable'],
    ['is damaged inside', 20 * 4_096, 'problem database.damage'],
  ])('reports a file that %s, and checks the rest', async (_what, position, expected) => {
    const mint = await startMint();
    const dataDir = await newDatabase();
    const file = await open(sqliteFile(dataDir), 'r+');
    await file.write(Buffer.alloc(4_096, 'broken'), { position });
    await file.close();
    const found = codesOf(await examine({ ...developing(mint), DATA_DIR: dataDir }));
    expect(found).toContain(expected);
    expect(found).toContain('ok mint.reachable');
  });

  it('reports files that other users can read, and how to fix it', async () => {
    const mint = await startMint();
    const dataDir = await newDatabase();
    await chmod(sqliteFile(dataDir), 0o640);
    const env = { ...developing(mint), DATA_DIR: dataDir };
    const findings = await examine(env);
    expect(findings.find(({ check }) => check === 'database.permissions')).toMatchObject({
      level: 'warning',
      what: `Other users of this machine can access ${dataDir} or files in it`,
      advice: expect.stringContaining(`chmod -R go= ${dataDir}`),
    });
    await chmod(sqliteFile(dataDir), 0o600);
    expect(await wrongWith(env)).not.toContain('warning database.permissions');
  });

  it('reports a rate limit of the mint that the service has learned, or that rejects the doctor', async () => {
    const mint = await startMint();
    const place = await createPlace();
    onTestFinished(() => place.remove());
    const env = { ...developing(mint), ...place.env };
    const database = await openExistingDatabase(place.location, () => undefined);
    const { mints } = new Store(database.db);
    await mints.rememberInfo(mint.url, {} as MintInfo, Date.now());
    await mints.writeRateLimit(mint.url, 'create', { count: 16, isElastic: true });
    await database.close();
    const learned = (await examine(env)).find(({ check }) => check === 'mint.rate_limit');
    expect(learned?.what).toContain('about 16 invoices a minute');

    const strict = await startMint({ rateLimit: { perMinute: 0 } });
    expect(await wrongWith({ ...env, DEFAULT_MINT_URL: strict.url })).toContain(
      'warning mint.rate_limit',
    );
  });
});

/** Nothing listens there. */
const UNUSED_ORIGIN = 'http://127.0.0.1:1';

function developing(mint: TestMint): Record<string, string> {
  return { DEFAULT_MINT_URL: mint.url, ALLOW_PRIVATE_NETWORKS: 'true', PORT: '0' };
}

async function newDataDir(): Promise<string> {
  const { dataDir, remove } = await createDataDir();
  onTestFinished(remove);
  return dataDir;
}

/** Creates a data directory with the SQLite database of a service that has stopped. */
async function newDatabase(): Promise<string> {
  const dataDir = await newDataDir();
  const database = await openDatabase({ kind: 'sqlite', dataDir }, () => undefined);
  await database.close();
  return dataDir;
}

function examine(env: Record<string, string>): Promise<Finding[]> {
  return examineSetup(() => undefined, env);
}

async function wrongWith(env: Record<string, string>): Promise<string[]> {
  return wrongOf(await examine(env));
}

/** Sorted. */
function wrongOf(findings: readonly Finding[]): string[] {
  return codesOf(findings.filter(({ level }) => level !== 'ok')).sort();
}

function codesOf(findings: readonly Finding[]): string[] {
  return findings.map(({ level, check }) => `${level} ${check}`);
}
