import { createServer } from 'node:http';
import { beforeEach, expect, it, onTestFinished } from 'vitest';
import { recordBackup } from '../../src/database/newest-backup-store.ts';
import type { ServiceOverrides } from '../../src/service.ts';
import { eventually } from '../helpers/eventually.ts';
import { listenOnLoopback } from '../helpers/network/loopback-server.ts';
import { startWebhookReceiver } from '../helpers/network/start-webhook-receiver.ts';
import { insertPaidQuotes, randomPubkey } from '../helpers/recipients/quote-fixtures.ts';
import { runOperatorCommand } from '../helpers/service/run-operator-command.ts';
import {
  startAdditionalService,
  TEST_TREASURY_SECRET,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

const MINUTE_MS = 60_000;
const environment = useTestEnvironment();
const clock = new TestClock();
let status: number;
let receiver: Awaited<ReturnType<typeof startWebhookReceiver>>;
let env: Record<string, string>;

beforeEach(async () => {
  status = 204;
  receiver = await startWebhookReceiver(() => ({ status }));
  env = { ALERT_URL: `${receiver.url}/hook?key=1`, PUBLIC_ORIGINS: 'https://pay.example' };
});

it('sends an alert once when it begins and once when it is over, from several processes and after a restart', async () => {
  const disk = { freeBytes: 50e6, totalBytes: 100e6 };
  const database = { ...environment.database, readDiskSpace: async () => disk };
  const stop = await Promise.all([startService({ database }), startService({ database })]);
  await passMinutes(2);
  disk.freeBytes = 9e6;
  // The first attempt fails.
  status = 500;
  await passMinutes(1);
  expect(await nextAlert()).toMatchObject({ alert: 'disk_low' });
  await waitForState({ isPresent: true, announced: 0 });
  status = 204;
  await passMinutes(1);
  expect(await nextAlert()).toEqual({
    alert: 'disk_low',
    state: 'begins',
    title: 'The disk is almost full',
    text: 'The disk is almost full: 9 % of the disk of DATA_DIR are free (9 MB). (https://pay.example)',
    since: expect.stringMatching(/Z$/),
  });
  await waitForState({ isPresent: true, announced: 1 });
  await passMinutes(3);
  await Promise.all(stop.map((stopService) => stopService()));
  await startService({ database });
  // Neither begins nor ends an alert.
  disk.freeBytes = 11e6;
  await passMinutes(2);
  disk.freeBytes = 12e6;
  await passMinutes(1);
  expect(await nextAlert()).toMatchObject({ alert: 'disk_low', state: 'over' });
  await waitForState({ isPresent: false, announced: 0 });
  await passMinutes(2);
  expect(receiver.webhooks.items).toEqual([]);
});

it('sends an alert if the default mint does not answer for 10 minutes, to a topic of ntfy', async () => {
  let isDown = true;
  const mint = await listenOnLoopback(
    createServer((request, response) => {
      void fetch(environment.mint.url + request.url).then(async (info) => {
        response.writeHead(isDown ? 503 : info.status).end(await info.text());
      });
    }),
  );
  onTestFinished(mint.close);
  env['DEFAULT_MINT_URL'] = mint.url;
  env['ALERT_URL'] = `ntfy+${receiver.url.replace('//', '//operator:p%40ss@')}/alerts`;
  await startService({});
  await passMinutes(9);
  expect(receiver.webhooks.items).toEqual([]);
  await passMinutes(3);
  const { path, headers, body } = await receiver.webhooks.next();
  expect({ path, body }).toEqual({
    path: '/alerts',
    body: `${mint.url} does not answer, so users who have not chosen another mint cannot be paid. (https://pay.example)`,
  });
  const authorization = `Basic ${Buffer.from('operator:p@ss').toString('base64')}`;
  expect(headers).toMatchObject({ authorization, title: 'The default mint is down' });
  isDown = false;
  await passMinutes(2);
  expect((await receiver.webhooks.next()).headers['title']).toBe('Over: The default mint is down');
});

it('sends alerts about the database, backups, and late payments, although the disk cannot be read', async () => {
  let isWritable = true;
  const readDiskSpace = () => Promise.reject(new Error('EIO: i/o error, statfs'));
  const database = { ...environment.database, isWritable: () => isWritable, readDiskSpace };
  await startService({ database });
  isWritable = false;
  await eventually(() => {
    clock.advance(MINUTE_MS);
    expect(receiver.webhooks.items).toHaveLength(1);
  });
  expect(await nextAlert()).toMatchObject({ alert: 'database_unavailable', state: 'begins' });
  isWritable = true;
  await passMinutes(1);
  expect(await nextAlert()).toMatchObject({ alert: 'database_unavailable', state: 'over' });
  await recordBackup(environment.database.db, clock.nowMs - 26 * 60 * MINUTE_MS);
  await passMinutes(2);
  expect(await nextAlert()).toMatchObject({ alert: 'backup_too_old', state: 'begins' });
  await recordBackup(environment.database.db, clock.nowMs);
  await passMinutes(2);
  expect(await nextAlert()).toMatchObject({ alert: 'backup_too_old', state: 'over' });
  const paidAtMs = clock.nowMs - 2 * 60 * MINUTE_MS;
  const weekEarlier = { paidAtMs: paidAtMs - 7 * 24 * 60 * MINUTE_MS };
  await insertPaidQuotes(environment.database, randomPubkey(), [
    weekEarlier,
    { paidAtMs },
    { paidAtMs },
  ]);
  const quotes = environment.database.db.updateTable('quotes');
  await quotes.set({ watch_until: clock.nowMs + 1e9 }).execute();
  await passMinutes(2);
  expect(await nextAlert()).toMatchObject({
    alert: 'payments_past_deadline',
    text: expect.stringContaining('2 payments (42 sat)'),
  });
  await quotes.set({ state: 'ISSUED', watch_until: null }).execute();
  await passMinutes(2);
  expect(await nextAlert()).toMatchObject({ alert: 'payments_past_deadline', state: 'over' });
});

it('sends an alert once if the treasury secret is wrong, although the service does not start then', async () => {
  const { db } = environment.database;
  const proof = { y: '02', mint_url: environment.mint.url, amount_sat: 1, proof: 'sealed' };
  await db.insertInto('treasury_proofs').values(proof).execute();
  onTestFinished(async () => {
    await db.deleteFrom('treasury_proofs').execute();
  });
  for (const start of [1, 2]) {
    clock.advance(start * MINUTE_MS);
    const wrong = { ...env, TREASURY_SECRET: `not ${TEST_TREASURY_SECRET}` };
    await expect(startAdditionalService(environment, wrong, { clock: clock.now })).rejects.toThrow(
      'is not the secret',
    );
  }
  clock.advance(MINUTE_MS);
  await startService({});
  await passMinutes(2);
  expect(await nextAlert()).toMatchObject({ alert: 'treasury_secret_wrong', state: 'begins' });
  expect(await nextAlert()).toMatchObject({ alert: 'treasury_secret_wrong', state: 'over' });
});

it('tests ALERT_URL with a command', async () => {
  const run = (settings: Record<string, string>) => {
    const options = { clock: clock.now, env: settings };
    return runOperatorCommand(environment.database, ['alert', 'test'], options);
  };
  expect(await run({})).toMatchObject({
    exitCode: 1,
    stderr: 'Not sent: ALERT_URL is not set.\n',
  });
  const settings = { ALERT_URL: env['ALERT_URL'] ?? '' };
  expect(await run(settings)).toMatchObject({
    exitCode: 0,
    stdout: expect.stringContaining('accepted'),
  });
  expect(await nextAlert()).toMatchObject({ state: 'test' });
  status = 404;
  expect(await run(settings)).toMatchObject({ exitCode: 1, stderr: 'Not sent: HTTP 404.\n' });
});

/** Starts a service that checks the alerts all the time, as the clock allows. Returns how to stop it. */
async function startService(overrides: ServiceOverrides): Promise<() => Promise<void>> {
  const options = { clock: clock.now, alertIntervalMs: 5, ...overrides };
  const service = await startAdditionalService(environment, env, options);
  let stopped: Promise<void> | null = null;
  const stop = () => {
    stopped ??= service.stop();
    return stopped;
  };
  onTestFinished(stop);
  return stop;
}

/** Advances the clock, and waits each minute until all alerts have been checked. */
async function passMinutes(count: number): Promise<void> {
  const { db } = environment.database;
  for (let minute = 0; minute < count; minute += 1) {
    clock.advance(MINUTE_MS);
    await eventually(async () => {
      const stale = await db
        .selectFrom('alerts')
        .select('name')
        .where('checked_at', '<', clock.nowMs - 30_000)
        .execute();
      expect(stale).toEqual([]);
    });
  }
}

/** The other process must not check the alert while one is being sent, for which it has a minute of real time. */
async function waitForState(state: { isPresent: boolean; announced: 0 | 1 }): Promise<void> {
  await eventually(async () => {
    const { db } = environment.database;
    const row = await db
      .selectFrom('alerts')
      .select(['since', 'announced'])
      .where('name', '=', 'disk_low')
      .executeTakeFirst();
    expect({ isPresent: row?.since !== null, announced: row?.announced }).toEqual(state);
  });
}

async function nextAlert(): Promise<Record<string, unknown>> {
  return JSON.parse((await receiver.webhooks.next()).body);
}
