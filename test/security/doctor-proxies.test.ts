import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { REVERSE_PROXIES } from '../../scripts/reverse-proxy.ts';
import { examineSetup } from '../../src/doctor.ts';
import { openTwoDomains } from '../helpers/two-domains.ts';
import { openWorld, TEST_JWT_SECRET, TEST_TREASURY_SECRET, type World } from '../helpers/world.ts';

/**
 * `nutpost doctor` beside a service on two domains, behind each reverse proxy that docs/proxies/ has an
 * example for, with that very example and TLS.
 */

let world: World;

beforeAll(async () => {
  world = await openWorld();
});

afterAll(() => world.close());

it.each(REVERSE_PROXIES)('finds nothing wrong with the example for %s', async (kind) => {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'nutpost-doctor-'));
  onTestFinished(() => rm(dataDir, { recursive: true }));
  const names = { USERNAME_PRICE_SAT: '21' };
  const domains = await openTwoDomains(world, kind, { env: names });
  onTestFinished(() => domains.close());
  const diagnosis = await examineSetup(() => undefined, {
    ...names,
    PORT: new URL(domains.directUrl).port,
    PUBLIC_ORIGINS: `${domains.one},${domains.two}`,
    TRUST_PROXY: '127.0.0.1',
    DATA_DIR: dataDir,
    JWT_SECRET: TEST_JWT_SECRET,
    TREASURY_SECRET: TEST_TREASURY_SECRET,
    DEFAULT_MINT_URL: world.mint.url,
    ALLOW_PRIVATE_NETWORKS: 'true',
  });
  const { findings = [] } = diagnosis.find(({ area }) => area === 'origins') ?? {};
  const ofOneDomain = [
    'ok origin.reached',
    'ok origin.host',
    'ok proxy.address',
    'ok proxy.length',
    'ok payers.discovery',
    'ok payers.names',
    'ok browsers.allowed',
    'ok socket.opened',
    // Those of the tests are good for two days.
    'warning origin.certificate',
  ];
  const told = findings.map(({ level, code }) => `${level} ${code}`);
  expect(told).toEqual(['ok listen.here', ...ofOneDomain, ...ofOneDomain]);
});
