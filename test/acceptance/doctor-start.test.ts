import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { findFreePort } from '../../scripts/server-process.ts';
import { readConfig } from '../../src/config.ts';
import { openDatabase } from '../../src/database/database.ts';
import { runDoctor } from '../../src/operator/doctor/doctor.ts';
import type { Finding } from '../../src/operator/doctor/finding.ts';
import { Sealer } from '../../src/sealer.ts';
import { startService } from '../../src/service.ts';
import { activateTreasuryKey, addTreasuryProofs } from '../../src/usernames/treasury-store.ts';
import { createDataDir } from '../helpers/database/test-database.ts';
import { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { runNutpostCommand } from '../helpers/service/nutpost-process.ts';
import { TEST_TREASURY_SECRET } from '../helpers/service/test-environment.ts';

/** What prevents the start of the service is a problem for `nutpost doctor`. */

const DEFAULTS = {
  DEFAULT_MINT_URL: 'http://127.0.0.1:1',
  ALLOW_PRIVATE_NETWORKS: 'true',
  LOG_LEVEL: 'silent',
};

/** Each changes a data directory with 16 sat of ecash, and returns settings. */
it.each<
  [string, string, (dataDir: string) => Record<string, string> | Promise<Record<string, string>>]
>([
  [
    'TREASURY_SECRET is not the one that sealed the ecash',
    'settings.treasury_secret',
    () => ({ TREASURY_SECRET: `${TEST_TREASURY_SECRET}, changed` }),
  ],
  [
    'the file treasury-secret is missing and usernames are not for sale',
    'settings.treasury_secret',
    () => ({}),
  ],
  [
    'the file jwt-secret is damaged',
    'settings.jwt_secret',
    (dataDir) => {
      writeFileSync(path.join(dataDir, 'jwt-secret'), 'short', { mode: 0o600 });
      return { TREASURY_SECRET: TEST_TREASURY_SECRET };
    },
  ],
  [
    'another program uses PORT',
    'settings.port',
    async () => ({ PORT: await useOccupiedPort(), TREASURY_SECRET: TEST_TREASURY_SECRET }),
  ],
  [
    'PORT and METRICS_PORT are the same',
    'settings.port',
    async () => {
      const port = String(await findFreePort('127.0.0.1'));
      return { PORT: port, METRICS_PORT: port, TREASURY_SECRET: TEST_TREASURY_SECRET };
    },
  ],
])('reports a problem if %s', async (_reason, check, prepare) => {
  const dataDir = await createTreasury();
  const env = { PORT: '0', DATA_DIR: dataDir, ...(await prepare(dataDir)) };
  const hadSecretFile = existsSync(path.join(dataDir, 'treasury-secret'));
  await expect(startService(readConfig({ ...DEFAULTS, ...env }))).rejects.toThrow();
  const problems = (await diagnose(env)).filter(({ level }) => level === 'problem');
  expect(problems.map((problem) => problem.check).sort()).toEqual([check, 'mint.reachable'].sort());
  // A generated secret would replace the right one in the next backup.
  expect(existsSync(path.join(dataDir, 'treasury-secret'))).toBe(hadSecretFile);
});

it('warns of ecash that expires within a month', async () => {
  const expiresAtMs = Date.now() + 3 * 24 * 60 * 60_000 + 60_000;
  const dataDir = await createTreasury(expiresAtMs);
  const env = { DATA_DIR: dataDir, TREASURY_SECRET: TEST_TREASURY_SECRET };
  expect(await diagnose(env)).toContainEqual({
    check: 'mint.ecash_expiry',
    level: 'warning',
    message: expect.stringMatching(/: 16 sat at https:\/\/mint\.example expire .* \(in 3 days\)$/),
    advice: expect.stringContaining('nutpost treasury withdraw'),
  });
});

it('warns of webhooks that were encrypted with another secret', async () => {
  const { dataDir, remove } = await createDataDir();
  onTestFinished(remove);
  const env = { PORT: '0', DATA_DIR: dataDir, TREASURY_SECRET: TEST_TREASURY_SECRET };
  const service = await startService(readConfig({ ...DEFAULTS, ...env }));
  const channels = [{ kind: 'webhook', url: 'https://shop.example/' }];
  const wallet = new RecipientClient(service.publicOrigin);
  expect((await wallet.send('PUT', '/api/v2/user/notifications', { channels })).status).toBe(200);
  await service.stop();
  const listWarnings = async (secret: string) =>
    (await diagnose({ ...env, TREASURY_SECRET: secret })).filter(
      ({ check }) => check === 'settings.notifications',
    );
  expect(await listWarnings(TEST_TREASURY_SECRET)).toEqual([]);
  expect(await listWarnings(`${TEST_TREASURY_SECRET}, changed`)).toMatchObject([
    { level: 'warning', message: expect.stringContaining('another TREASURY_SECRET') },
  ]);
});

it('shows in `nutpost treasury` the ecash that the treasury secret cannot open', async () => {
  const dataDir = await createTreasury();
  const wrongSecret = { TREASURY_SECRET: `${TEST_TREASURY_SECRET}, changed` };
  for (const [settings, problem] of [
    [{ USERNAME_PRICE_SAT: '21' }, 'is missing, but the stored ecash needs it'],
    [wrongSecret, 'is not the secret that sealed the stored ecash'],
  ] as const) {
    const env = { DATA_DIR: dataDir, ...settings };
    const overview = await runNutpostCommand(['treasury'], env);
    expect(overview).toMatchObject({ code: 1, stdout: '' });
    expect(overview.stderr).toContain(`TREASURY_SECRET: ${problem}`);
    expect(overview.stderr).toContain('Cannot be withdrawn\n  16 sat at https://mint.example');
  }
  const withdrawal = await runNutpostCommand(['treasury', 'withdraw'], {
    DATA_DIR: dataDir,
    ...wrongSecret,
  });
  expect(withdrawal).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(/^TREASURY_SECRET: /),
  });
  expect(existsSync(path.join(dataDir, 'treasury-secret'))).toBe(false);
});

function diagnose(env: Record<string, string>): Promise<Finding[]> {
  return runDoctor(() => undefined, { ...DEFAULTS, ...env });
}

async function createTreasury(expiresAtMs: number | null = null): Promise<string> {
  const { dataDir, remove } = await createDataDir();
  onTestFinished(remove);
  const database = await openDatabase({ kind: 'sqlite', dataDir }, () => undefined);
  const sealer = new Sealer(TEST_TREASURY_SECRET);
  await activateTreasuryKey(database.db, sealer.keyId);
  const sealed = await sealer.seal('treasury proof y', {});
  await addTreasuryProofs(database.db, [
    { y: 'y', mintUrl: 'https://mint.example', amountSat: 16, expiresAtMs, sealed },
  ]);
  await database.close();
  return dataDir;
}

async function useOccupiedPort(): Promise<string> {
  const server = createServer((socket) => socket.destroy());
  await once(server.listen({ host: '127.0.0.1', port: 0 }), 'listening');
  onTestFinished(() => void server.close());
  return String((server.address() as AddressInfo).port);
}
