import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { finalizeEvent } from 'nostr-tools';
import { unwrapEvent } from 'nostr-tools/nip59';
import { expect, it, vi } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { startPostgresCluster } from '../../scripts/postgres-cluster.ts';
import { eventually } from '../helpers/eventually.ts';
import { startWebhookReceiver, verifyWebhook } from '../helpers/network/start-webhook-receiver.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { startFakeRelay } from '../helpers/relays/start-fake-relay.ts';
import { TEST_ZAP_SECRET_KEY } from '../helpers/relays/zap-requests.ts';
import { DISABLED_LIMITS_ENV } from '../helpers/service/disabled-limits.ts';
import { findStablePorts, ServiceProcess } from '../helpers/service/service-process.ts';

// The second delivery waits for the end of the claim of the killed process, which is 30 seconds.
vi.setConfig({ testTimeout: 300_000 });

it('sends webhooks although the process is killed before and during the delivery', async () => {
  await using stack = new AsyncDisposableStack();
  const answers = [{ status: 204 }, 'never'] as const;
  let count = 0;
  const { url, webhooks } = await startWebhookReceiver(() => answers[count++] ?? { status: 204 });
  const mint = await TestMint.start();
  stack.defer(() => mint.close());
  const processes = await startProcesses(stack, 'postgres', mint.url);
  const [first, second] = processes as [ServiceProcess, ServiceProcess];
  const wallet = new RecipientClient(first.origin);
  const channels = [{ kind: 'webhook', url }];
  const { body } = await wallet.send('PUT', '/api/v2/user/notifications', { channels });
  const { secret } = body.data.channels[0];

  await pay(wallet, mint);
  await Promise.all(processes.map((each) => each.kill()));
  second.start();
  await second.waitUntilReady();
  expect(verifyWebhook(await webhooks.next(), secret).type).toBe('payment.received');

  const otherWallet = new RecipientClient(second.origin);
  await otherWallet.send('PUT', '/api/v2/user/notifications', { channels });
  await pay(otherWallet, mint);
  const unanswered = await webhooks.next();
  await second.kill();
  first.start();
  const repeated = await webhooks.next();
  expect(repeated.headers['webhook-id']).toBe(unanswered.headers['webhook-id']);
});

it('repeats the same Nostr message if the process is killed before a relay answers', async () => {
  await using stack = new AsyncDisposableStack();
  const relay = await startFakeRelay({ eventHandling: 'store_and_ignore' });
  const mint = await TestMint.start();
  stack.defer(() => mint.close());
  const nostr = { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY, ZAP_RELAYS: relay.url };
  const [service] = await startProcesses(stack, 'sqlite', mint.url, nostr);
  if (service === undefined) {
    throw new Error('no process was started');
  }
  const wallet = new RecipientClient(service.origin);
  const list = { kind: 10_050, created_at: 1, tags: [['relay', relay.url]], content: '' };
  relay.storeEvent(finalizeEvent(list, wallet.secretKey));
  const channels = [{ kind: 'nostr' }];
  await wallet.send('PUT', '/api/v2/user/notifications', { channels });
  await pay(wallet, mint);
  await relay.waitForEvents(2);
  await service.kill();
  service.start();
  await relay.waitForEvents(3);
  const wraps = [...relay.events.values()].slice(1);
  expect(new Set(wraps.map(({ pubkey }) => pubkey)).size).toBe(2);
  const [first, second] = wraps.map((wrap) => unwrapEvent(wrap, wallet.secretKey));
  expect(second).toEqual(first);
});

async function pay(wallet: RecipientClient, mint: TestMint): Promise<void> {
  const url = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
  const { body } = await requestJson(wallet.origin, url);
  mint.pay(body.pr);
  await eventually(async () => expect(await wallet.listPaidQuotes()).toHaveLength(1));
}

/** Starts one process on SQLite, or two that share a PostgreSQL server. */
async function startProcesses(
  stack: AsyncDisposableStack,
  database: 'sqlite' | 'postgres',
  mintUrl: string,
  options: Record<string, string> = {},
): Promise<ServiceProcess[]> {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-webhooks-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const cluster = database === 'postgres' ? await startPostgresCluster({ durable: true }) : null;
  stack.defer(async () => cluster?.stop());
  const ports = await findStablePorts(cluster === null ? 1 : 2);
  const env = {
    DEFAULT_MINT_URL: mintUrl,
    ALLOW_PRIVATE_NETWORKS: 'true',
    STOP_DELAY_SECONDS: '0',
    ...DISABLED_LIMITS_ENV,
    ...options,
    PUBLIC_ORIGINS: ports.map((port) => `http://127.0.0.1:${port}`).join(','),
    JWT_SECRET: randomBytes(32).toString('hex'),
    ...(cluster === null
      ? { DATA_DIR: path.join(folder, 'data') }
      : { DATABASE_URL: cluster.url, TREASURY_SECRET: randomBytes(32).toString('hex') }),
  };
  return await Promise.all(
    ports.map(async (port, index) => {
      const onUnexpectedExit = (description: string) => console.error(description);
      const name = `process-${index + 1}`;
      const serviceProcess = new ServiceProcess({ name, port, folder, env, onUnexpectedExit });
      stack.defer(() => serviceProcess.killPermanently());
      serviceProcess.start();
      await serviceProcess.waitUntilReady();
      return serviceProcess;
    }),
  );
}
