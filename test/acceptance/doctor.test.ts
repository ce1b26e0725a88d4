import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { finalizeEvent, generateSecretKey } from 'nostr-tools';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { freePort } from '../../scripts/server-process.ts';
import { diagnosisToText } from '../../src/commands/doctor-text.ts';
import { readConfig } from '../../src/config.ts';
import { TestMint } from '../../src/demo/test-mint.ts';
import { examineSetup } from '../../src/doctor.ts';
import type { Finding } from '../../src/domain/finding.ts';
import { openLog } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import { openDatabase } from '../../src/store/database.ts';
import { CarelessProxy, CDN_ADDRESS } from '../helpers/careless-proxy.ts';
import { createDataDir, hasServer } from '../helpers/database.ts';
import { NO_LIMITS } from '../helpers/no-limits.ts';
import { runNutpost } from '../helpers/nutpost-command.ts';
import { createPlace, type Place } from '../helpers/place.ts';
import { refusingPort, startRelay } from '../helpers/relays.ts';
import { TestRelay } from '../helpers/test-relay.ts';
import { TEST_TREASURY_SECRET } from '../helpers/world.ts';
import { plantReceipts } from '../helpers/zap-outbox.ts';
import { TEST_ZAP_SECRET_KEY } from '../helpers/zap-requests.ts';

/** `nutpost doctor`: what it finds, beside a service that runs and without one. */

/** What is right for tests, and for nobody else. */
const OF_TESTS = [
  ...(hasServer ? ['database.durability'] : []),
  'settings.plain_origin',
  'settings.plain_origin',
  'settings.private_networks',
];

describe('beside a service that runs', () => {
  let mint: TestMint;
  let relay: TestRelay;
  /** Leads to the canonical origin, and does it well. */
  let front: CarelessProxy;
  /** Leads to the other origin. */
  let side: CarelessProxy;
  let place: Place;
  let service: Service;
  let env: Record<string, string>;

  beforeAll(async () => {
    [mint, relay, front, side, place] = await Promise.all([
      TestMint.start(),
      TestRelay.start(),
      CarelessProxy.start(),
      CarelessProxy.start(),
      createPlace(),
    ]);
    env = {
      ...place.env,
      ...NO_LIMITS,
      PORT: String(await freePort('127.0.0.1')),
      PUBLIC_ORIGINS: `${front.origin},${side.origin}`,
      TRUST_PROXY: '127.0.0.1',
      DEFAULT_MINT_URL: mint.url,
      ALLOW_PRIVATE_NETWORKS: 'true',
      ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY,
      ZAP_RELAYS: relay.url,
      USERNAME_PRICE_SAT: '21',
      TREASURY_SECRET: TEST_TREASURY_SECRET,
    };
    service = await startService(readConfig(env), { log: openLog('silent') });
    front.leadTo(service.url);
    side.leadTo(service.url);
  });

  afterEach(() => side.mend());

  afterAll(async () => {
    await service.stop();
    await Promise.all([front.close(), side.close(), relay.close(), mint.close()]);
    await place.remove();
  });

  it('nothing is wrong with one that is well, and the exit code says so', async () => {
    const { code, stdout, stderr } = await runNutpost(['doctor', '--json'], env);
    const { problems, findings } = JSON.parse(stdout);
    expect(findings.filter(({ level }: { level: string }) => level === 'problem')).toEqual([]);
    expect({ code, stderr, problems }).toEqual({ code: 0, stderr: '', problems: 0 });
    const told = findings.map((each: { code: string }) => each.code);
    expect(told).toEqual(
      expect.arrayContaining([
        'database.tables',
        'database.processes',
        'clock.right',
        'mint.amounts',
        'mint.locking',
        'mint.batch',
        'mint.socket',
        'mint.restores',
        'relay.reached',
        'listen.here',
        'origin.reached',
        'origin.host',
        'proxy.address',
        'proxy.length',
        'payers.discovery',
        'browsers.allowed',
        'socket.opened',
      ]),
    );
    expect(await wrongCodes()).toEqual(OF_TESTS);
  });

  it('no secret is in what it says', async () => {
    const text = diagnosisToText(await examineSetup(() => undefined, env));
    for (const secret of [TEST_ZAP_SECRET_KEY, TEST_TREASURY_SECRET, env['JWT_SECRET']]) {
      expect(text).not.toContain(secret ?? TEST_ZAP_SECRET_KEY);
    }
  });

  it.each<[string, Partial<CarelessProxy['switches']>, string[]]>([
    ['forgets Host', { forgetsHost: true }, ['origin.host', 'payers.callback', 'socket.host']],
    ['passes no WebSocket on', { losesUpgrades: true }, ['socket.refused']],
    ['answers browsers a second time', { addsCors: true }, ['browsers.refused']],
    ['believes what clients say of themselves', { forwardedFor: 'passed_on' }, ['proxy.believes']],
    ['adds what it sees to what clients say', { forwardedFor: 'appended' }, []],
    ['is behind one that is not trusted', { forwardedFor: 'behind_another' }, ['proxy.untrusted']],
    ['refuses long tokens', { maxHeaderBytes: 8 * 1024 }, ['proxy.length']],
    [
      'keeps a part of the paths to itself',
      { keeps: /^\/\.well-known/ },
      ['payers.discovery', 'payers.names'],
    ],
    ['is somebody’s home page', { keeps: /^/ }, ['origin.elsewhere']],
    ['finds nobody behind it', { isAlone: true }, ['origin.gateway']],
    ['sends clients elsewhere', { redirectsTo: 'https://pay.example' }, ['origin.redirected']],
  ])('a proxy that %s is found', async (_what, switches, codes) => {
    Object.assign(side.switches, switches);
    expect(await wrongCodes()).toEqual([...OF_TESTS, ...codes].sort());
  });

  it('a proxy that is not trusted is named, with the setting that would trust it', async () => {
    const own = await serveInstead({ TRUST_PROXY: '10.0.0.1' });
    const named = (await findingsOf(own)).filter(({ code }) => code === 'proxy.untrusted');
    expect(named.map(({ advice }) => advice)).toEqual(
      Array(2).fill('If it is yours, set TRUST_PROXY=127.0.0.1.'),
    );
  });

  it('one before the proxy that is not trusted is named by its address', async () => {
    side.switches.forwardedFor = 'behind_another';
    const named = (await findingsOf(env)).find(({ code }) => code === 'proxy.untrusted');
    expect(named?.what).toContain(`The proxy at ${CDN_ADDRESS} is not in TRUST_PROXY`);
  });

  it('where this machine is itself trusted, it is told to look from elsewhere', async () => {
    side.switches.forwardedFor = 'appended';
    expect(await levelsOf('proxy.self_trusted', {})).toEqual(['note']);
  });

  it('a service that refuses this machine for asking too often is nobody else', async () => {
    const own = await serveInstead({ LIMIT_REQUESTS: '3' });
    const statuses: number[] = [];
    for (let asked = 0; asked < 4; asked += 1) {
      statuses.push((await fetch(`${front.origin}/api/v2/reach`)).status);
    }
    // A stranger's question is a request like others.
    expect(statuses).toEqual([404, 404, 404, 429]);
    const ofOrigins = (await wrongWith(own)).filter((code) => !OF_TESTS.includes(code));
    expect(ofOrigins).toEqual(['origin.limited', 'origin.limited']);
  });

  it('its metrics are found, and told from a place that another program has', async () => {
    const own = await serveInstead({ METRICS_PORT: String(await freePort('127.0.0.1')) });
    expect((await findingsOf(own)).map(({ code }) => code)).toContain('metrics.here');
    const { port } = new URL(mint.url);
    expect(await wrongWith({ ...own, METRICS_PORT: port })).toContain('metrics.taken');
    const another = String(await freePort('127.0.0.1'));
    expect(await wrongWith({ ...own, METRICS_PORT: another })).toContain('metrics.absent');
  });

  it('a service that runs with other settings than these is found', async () => {
    const changed = {
      PUBLIC_ORIGINS: `${front.origin},${side.origin.replace('localhost', '127.0.0.1')}`,
    };
    expect(await wrongCodes(changed)).toEqual([...OF_TESTS, 'origin.unlisted'].sort());
  });

  it('a mint is told from one that is as good as none', async () => {
    const poor = await TestMint.start({
      switches: {
        locking: false,
        batch: 'absent',
        socket: false,
        restore: false,
        minAmountSat: 2_000_000,
      },
    });
    onTestFinished(() => poor.close());
    const found = await wrongCodes({ DEFAULT_MINT_URL: poor.url });
    expect(found).toEqual(
      [...OF_TESTS, 'mint.amounts', 'mint.no_locking', 'mint.no_restore'].sort(),
    );
    const locked = await wrongCodes({ DEFAULT_MINT_URL: poor.url, DEFAULT_LOCK_QUOTES: 'true' });
    expect(locked.filter((code) => code === 'mint.no_locking')).toHaveLength(1);
    const away = await wrongCodes({ DEFAULT_MINT_URL: 'http://127.0.0.1:1' });
    expect(away).toContain('mint.unreachable');
    const none = await wrongCodes({ DEFAULT_MINT_URL: `${service.url}/nowhere` });
    expect(none).toContain('mint.none');
  });

  it('a relay that is away is a warning beside others, and a problem where it is the only one', async () => {
    const dead = await refusingPort();
    const mute = await startRelay({ handshake: 403 });
    expect(await levelsOf('relay.unreachable', { ZAP_RELAYS: `${relay.url},${dead}` })).toEqual([
      'warning',
    ]);
    expect(await levelsOf('relay.unreachable', { ZAP_RELAYS: `${mute.url},${dead}` })).toEqual([
      'problem',
      'problem',
    ]);
  });

  /**
   * Starts another service where the proxies lead, until the test ends, with a database of its own: an
   * embedded one belongs to one service.
   *
   * @returns its settings
   */
  async function serveInstead(changes: Record<string, string>): Promise<Record<string, string>> {
    const port = await freePort('127.0.0.1');
    const { dataDir, remove } = await createDataDir();
    const own = { ...env, DATABASE_URL: '', DATA_DIR: dataDir, PORT: String(port), ...changes };
    const other = await startService(readConfig(own), { log: openLog('silent') });
    front.leadTo(`http://127.0.0.1:${port}`);
    side.leadTo(`http://127.0.0.1:${port}`);
    onTestFinished(async () => {
      front.leadTo(service.url);
      side.leadTo(service.url);
      await other.stop();
      await remove();
    });
    return own;
  }

  /** What is wrong, sorted. @param changes of the settings that the doctor is given */
  function wrongCodes(changes: Record<string, string> = {}): Promise<string[]> {
    return wrongWith({ ...env, ...changes });
  }

  async function levelsOf(code: string, changes: Record<string, string>): Promise<string[]> {
    const found = await findingsOf({ ...env, ...changes });
    return found.filter((each) => each.code === code).map(({ level }) => level);
  }
});

describe('without a service', () => {
  it('before the first start, what is there is looked at, and no file is made', async () => {
    const mint = await startMint();
    const { dataDir, remove } = await createDataDir();
    onTestFinished(remove);
    const future = path.join(dataDir, 'not', 'there', 'yet');
    const { code, stdout } = await runNutpost(['doctor'], {
      DEFAULT_MINT_URL: mint.url,
      DATA_DIR: future,
      PORT: String(await freePort('127.0.0.1')),
    });
    expect(stdout).toContain(`There is no database in ${future} yet: the first start makes it.`);
    expect(stdout).toContain('No service listens at http://127.0.0.1:');
    expect(stdout).toContain('could not be looked at: no service is running');
    expect(stdout).toMatch(/\n0 problems, \d warnings\.\n$/);
    expect(code).toBe(0);
    expect(existsSync(path.join(dataDir, 'not'))).toBe(false);
  });

  it('wrong settings are all named, and so are misspelt ones', async () => {
    const { code, stdout } = await runNutpost(['doctor'], {
      PORT: 'abc',
      LIMIT_REQUEST: '5',
      ZAP_KEY: 'nsec1',
      DATABSE_URL: 'postgres://localhost/nutpost',
    });
    expect(code).toBe(1);
    expect(stdout).toContain('PROBLEM  PORT: must be a whole number.');
    expect(stdout).toContain('WARNING  LIMIT_REQUEST is no setting of nutpost');
    expect(stdout).toContain('Did you mean LIMIT_REQUESTS?');
    expect(stdout).toContain('Did you mean ZAP_SECRET_KEY?');
    expect(stdout).toContain('Did you mean DATABASE_URL?');
    expect(stdout).not.toContain('nsec1');
  });

  it('it tells who misuses it how it is used', async () => {
    const { code, stdout, stderr } = await runNutpost(['doctor', '--jsno'], {});
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain('  doctor   looks at everything');
  });

  it('a port that another program has is named', async () => {
    const mint = await startMint();
    const { dataDir, remove } = await createDataDir();
    onTestFinished(remove);
    const port = new URL(mint.url).port;
    const env = { ...developing(mint), DATA_DIR: dataDir, PORT: port };
    expect(await wrongWith(env)).toContain('listen.taken');
    const metrics = { ...env, PORT: '0', METRICS_PORT: port };
    expect(await wrongWith(metrics)).toContain('metrics.taken');
  });

  it('a database that is damaged, or a secret that a full disk cut off, is one finding among others', async () => {
    const mint = await startMint();
    const { dataDir, remove } = await createDataDir();
    onTestFinished(remove);
    await writeFile(path.join(dataDir, 'postgres', 'global', 'pg_control'), 'broken');
    await writeFile(path.join(dataDir, 'jwt-secret'), '');
    const found = await findingsOf({ ...developing(mint), DATA_DIR: dataDir, PORT: '0' });
    const told = found.map(({ level, code }) => `${level} ${code}`);
    expect(told).toEqual(
      expect.arrayContaining([
        'problem settings.secret',
        'problem database.failed',
        'ok mint.reached',
      ]),
    );
  });

  it('while somebody is silent, it says whom it waits for, and never that it waits for nobody', async () => {
    const mint = await startMint();
    const { dataDir, remove } = await createDataDir();
    onTestFinished(remove);
    const held: ServerResponse[] = [];
    const silent = createServer((_request, response) => void held.push(response));
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    onTestFinished(() => void silent.close());
    const told: string[] = [];
    const env = {
      ...developing(mint),
      DATA_DIR: dataDir,
      PORT: '0',
      PUBLIC_ORIGINS: `http://127.0.0.1:${(silent.address() as AddressInfo).port}`,
    };
    await examineSetup((line) => {
      told.push(line);
      if (line === 'Looking; still at origins') {
        for (const response of held) {
          response.writeHead(404).end();
        }
      }
    }, env);
    expect(told.at(-1)).toBe('Looking; still at origins');
    expect(told.filter((line) => !/ at [a-z]+(, [a-z]+)*$/.test(line))).toEqual([]);
  });

  it('a process without the zap key, or with another, is told of the receipts that there are', async () => {
    const mint = await startMint();
    const place = await createPlace();
    onTestFinished(() => place.remove());
    const database = await openDatabase(place.location, () => undefined);
    const receipt = { kind: 9735, content: '', tags: [], created_at: 1_700_000_000 };
    const event = finalizeEvent(receipt, Buffer.from(TEST_ZAP_SECRET_KEY, 'hex'));
    await plantReceipts(database, {
      texts: [JSON.stringify(event)],
      relays: ['wss://relay.example'],
      atMs: Date.now(),
    });
    await database.close();
    const env = { ...developing(mint), ...place.env, PORT: '0' };
    expect(await wrongWith(env)).toContain('zaps.key_missing');
    const another = Buffer.from(generateSecretKey()).toString('hex');
    expect(await wrongWith({ ...env, ZAP_SECRET_KEY: another })).toContain('zaps.key_changed');
    const right = await wrongWith({ ...env, ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY });
    expect(right.filter((code) => code.startsWith('zaps.'))).toEqual([]);
  });
});

function developing(mint: TestMint): Record<string, string> {
  return { DEFAULT_MINT_URL: mint.url, ALLOW_PRIVATE_NETWORKS: 'true' };
}

async function startMint(): Promise<TestMint> {
  const mint = await TestMint.start();
  onTestFinished(() => mint.close());
  return mint;
}

async function wrongWith(env: Record<string, string>): Promise<string[]> {
  const found = await findingsOf(env);
  return (
    found
      .filter(({ level }) => level === 'problem' || level === 'warning')
      .map(({ code }) => code)
      // On a busy machine everybody is slow.
      .filter((code) => code !== 'mint.slow')
      .sort()
  );
}

async function findingsOf(env: Record<string, string>): Promise<Finding[]> {
  return (await examineSetup(() => undefined, env)).flatMap(({ findings }) => findings);
}
