import { createServer } from 'node:https';
import { describe, expect, it, onTestFinished } from 'vitest';
import { listenOnLoopback } from '../helpers/network/loopback-server.ts';
import { startWebhookReceiver } from '../helpers/network/start-webhook-receiver.ts';
import type { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { createTestEnvironment, useTestEnvironment } from '../helpers/service/test-environment.ts';

const PATH = '/api/v2/user/notifications';

const environment = useTestEnvironment({ overrides: { fetchLimits: { totalTimeoutMs: 12_000 } } });

it('sends a test webhook, and says what is wrong with it', async () => {
  let status = 200;
  const { url, webhooks } = await startWebhookReceiver(() => ({ status }));
  const wallet = environment.newWallet();
  expect(await sendTest(wallet, await addWebhook(wallet, url))).toBeUndefined();
  expect(JSON.parse((await webhooks.next()).body)).toMatchObject({ type: 'test' });
  status = 404;
  const [{ id }] = (await wallet.get(PATH)).body.data.channels;
  expect(await sendTest(wallet, id)).toBe('HTTP 404');
  const stranger = await environment.newWallet().send('POST', `${PATH}/test`, { id });
  expect(stranger.status).toBe(400);
});

describe('a webhook fails', () => {
  it.each([
    ['HTTP 302', { status: 302, headers: { location: 'http://127.0.0.1:1/' } }],
    ['response too large', { status: 200, body: 'x'.repeat(70_000) }],
    ['timed out', 'never'],
  ] as const)('with "%s"', async (problem, answer) => {
    const { url } = await startWebhookReceiver(() => answer);
    const wallet = environment.newWallet();
    expect(await sendTest(wallet, await addWebhook(wallet, url))).toBe(problem);
  });

  it('at an address that is not public', async () => {
    const secure = await createTestEnvironment({
      env: { ALLOW_PRIVATE_NETWORKS: 'false', DEFAULT_MINT_URL: 'https://mint.example' },
    });
    onTestFinished(() => secure.close());
    const server = createServer();
    server.on('connection', () => expect.unreachable('the service connected'));
    const { port, close } = await listenOnLoopback(server);
    onTestFinished(close);
    const wallet = secure.newWallet();
    const plain = [{ kind: 'webhook', url: `http://127.0.0.1:${port}` }];
    expect((await wallet.send('PUT', PATH, { channels: plain })).status).toBe(400);
    for (const host of ['127.0.0.1', 'localhost', '[::1]', '169.254.169.254']) {
      const id = await addWebhook(wallet, `https://${host}:${port}/`);
      expect(await sendTest(wallet, id)).toBe('forbidden address');
    }
  });
});

it('sends to others while a host does not respond, and to that host only a few at once', async () => {
  const silent = await startWebhookReceiver(() => 'never');
  const wallets = Array.from({ length: 12 }, () => environment.newWallet());
  for (const wallet of wallets) {
    await addWebhook(wallet, silent.url);
    await pay(wallet);
  }
  const working = await startWebhookReceiver();
  const wallet = environment.newWallet();
  await addWebhook(wallet, working.url);
  await silent.webhooks.next();
  await pay(wallet);
  const webhook = await working.webhooks.next();
  expect(silent.webhooks.items.length).toBeLessThan(8);
  expect(JSON.parse(webhook.body)).toMatchObject({ type: 'payment.received' });
});

async function pay(wallet: RecipientClient): Promise<void> {
  const { pr } = await environment.requestInvoice(wallet, 1);
  environment.mint.pay(pr);
}

async function addWebhook(wallet: RecipientClient, url: string): Promise<string> {
  const channels = [{ kind: 'webhook', url }];
  const { status, body } = await wallet.send('PUT', PATH, { channels });
  expect(status, JSON.stringify(body)).toBe(200);
  return body.data.channels[0].id;
}

/** Returns why the test was not delivered. */
async function sendTest(wallet: RecipientClient, id: string): Promise<string | undefined> {
  const { status, body } = await wallet.send('POST', `${PATH}/test`, { id });
  expect(status, JSON.stringify(body)).toBe(200);
  return body.data.problem;
}
