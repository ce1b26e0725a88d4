import { expect, it } from 'vitest';
import { SubscribedBrowser } from '../helpers/network/start-push-service.ts';
import { startWebhookReceiver } from '../helpers/network/start-webhook-receiver.ts';
import { receivePayment, useTestEnvironment } from '../helpers/service/test-environment.ts';
import { inspectPage } from '../helpers/web/inspect-page.ts';
import { openAccount, section } from '../helpers/web/pages.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

const environment = useTestEnvironment();
const browser = useBrowser();

it('adds a webhook for a program, tests it and removes it', async () => {
  let status = 204;
  const { url, webhooks } = await startWebhookReceiver(() => ({ status }));
  const wallet = environment.newWallet();
  const page = await openAccount(browser, wallet, { expectedStatuses: [400] });
  const webhook = section(page, 'Notifications');
  const press = (name: string) => webhook.getByRole('button', { name }).click();
  await webhook.getByLabel('Address of the program').fill('shop');
  await press('Add');
  await webhook.getByText('Enter the https:// address of your program').waitFor();
  await webhook.getByLabel('Address of the program').fill(`${url}/paid`);
  await press('Add');
  await webhook.getByText('Payments are reported to 127.0.0.1').waitFor();
  const secret = (await webhook.locator('code').textContent()) ?? '';
  expect(secret).toMatch(/^whsec_/);
  await inspectPage(page, 'account-webhook');
  await press('Send a test');
  await webhook.getByText('The test was accepted.').waitFor();
  expect(JSON.parse((await webhooks.next()).body)).toMatchObject({ type: 'test' });
  status = 404;
  await press('Send a test');
  await webhook.getByText('The test was not accepted: HTTP 404').waitFor();
  await receivePayment(environment, wallet, 'amount=1000');
  await expect
    .poll(async () => (await wallet.get('/api/v2/user/notifications')).body.data.channels[0])
    .toMatchObject({ problem: 'HTTP 404' });
  await page.reload();
  await webhook.getByText(/It has failed since .*: HTTP 404/).waitFor();
  expect(await webhook.locator('code').count()).toBe(0);
  await press('Remove');
  await webhook.getByLabel('Address of the program').waitFor();
});

it('keeps what the user has added and removed on another device meanwhile', async () => {
  const { url } = await startWebhookReceiver();
  const wallet = environment.newWallet();
  const replace = async (channels: readonly object[]) =>
    (await wallet.send('PUT', '/api/v2/user/notifications', { channels })).body.data.channels;
  const [first, second, third] = ['1', '2', '3'].map((name) => ({
    kind: 'web_push',
    subscription: new SubscribedBrowser(`https://push.example/${name}`).subscription,
  })) as [object, object, object];
  const [, { id }] = await replace([first, second]);
  const page = await openAccount(browser, wallet);
  const notifications = section(page, 'Notifications');
  await notifications.getByText('Another device').nth(1).waitFor();
  await replace([{ id }, third]);
  await notifications.getByLabel('Address of the program').fill(url);
  await notifications.getByRole('button', { name: 'Add' }).click();
  await notifications.getByText('Payments are reported to 127.0.0.1').waitFor();
  expect(await notifications.getByText('Another device').count()).toBe(2);
  const { channels } = (await wallet.get('/api/v2/user/notifications')).body.data;
  expect(channels).toMatchObject([{ id }, { kind: 'web_push' }, { kind: 'webhook' }]);
});
