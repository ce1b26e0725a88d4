import { expect, it, onTestFinished } from 'vitest';
import { eventually } from '../helpers/eventually.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { SubscribedBrowser, startPushService } from '../helpers/network/start-push-service.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { setMint } from '../helpers/service/test-environment.ts';
import { clickCollect, inBrowser } from '../helpers/web/collect-page.ts';
import { addNostrExtension, openAccount, section } from '../helpers/web/pages.ts';
import {
  clickNotification,
  deliverPushMessage,
  readNotifications,
  stubPushService,
} from '../helpers/web/push-messages.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';
import { startNutshellDeployment } from './nutshell-deployment.ts';

const MINUTE_MS = 60_000;

const browser = useBrowser({ showsNotifications: true });

it('notifies a device of a payment at Nutshell, reminds it, and the recipient collects in time', async () => {
  // The service does not know whether this version issues a payment after its expiry.
  const device = await startDeployment({ VERSION: '0.99.0' });
  const { wallet, context, clock, mintUrl } = device;
  await device.requestInvoice('amount=21000');
  await device.receiveMessage();
  const [quote] = await wallet.listPaidQuotes();
  const { collectBy } = quote as { collectBy: number };
  const time = new Date(collectBy * 1_000).toLocaleTimeString('en', { timeStyle: 'short' });
  const body = expect.stringMatching(new RegExp(`^Collect until .*${time}\\.$`));
  const received = { title: '21 sats received', body };
  await expect.poll(() => readNotifications(context)).toEqual([received]);

  clock.aheadMs = 5 * MINUTE_MS;
  await device.receiveMessage();
  const reminder = { title: 'Not collected yet: 21 sats', body };
  // It replaces the first one.
  await expect.poll(() => readNotifications(context)).toEqual([reminder]);

  const url = await clickNotification(context, reminder.title);
  const page = await browser.openPage(url, {
    context,
    mints: [mintUrl],
    prepare: async (newPage) => {
      await newPage.clock.install({ time: clock.now() });
      await addNostrExtension(newPage, wallet.secretKey);
    },
  });
  await page.getByRole('button', { name: 'Sign in with a browser extension' }).click();
  await section(page, 'Waiting')
    .getByText(/^Collect within [1-5] minutes\./)
    .waitFor();
  await clickCollect(page);
  await inBrowser(page).locator('.balance').getByText('21 sats', { exact: true }).waitFor();
  expect(clock.now()).toBeLessThan(collectBy * 1_000);
  await eventually(async () =>
    expect(await wallet.listPaidQuotes()).toMatchObject([{ state: 'ISSUED' }]),
  );
});

it('sends no deadline and no reminder if Nutshell or cdk issues a payment after its expiry', async () => {
  const device = await startDeployment();
  const { wallet, context, clock } = device;
  const expectNotification = (title: string) =>
    expect.poll(() => readNotifications(context)).toContainEqual({ title, body: '' });
  await device.requestInvoice('amount=21000');
  await device.receiveMessage();
  await expectNotification('21 sats received');
  const cdk = await startTestMint(
    { style: 'cdk', version: 'cdk-mintd/0.18.3', expirySeconds: 600 },
    { now: clock.now },
  );
  expect((await setMint(wallet, cdk.url)).status).toBe(200);
  cdk.pay(await device.requestInvoice('amount=22000'));
  clock.aheadMs = MINUTE_MS;
  await device.receiveMessage();
  await expectNotification('22 sats received');

  // When reminders would be due, the next message is about the next payment.
  clock.aheadMs = 6 * MINUTE_MS;
  cdk.pay(await device.requestInvoice('amount=23000'));
  await device.receiveMessage();
  await expectNotification('23 sats received');
  expect(device.messages.items).toEqual([]);
});

/** Starts the service, and Nutshell with quotes that expire after ten minutes. A recipient adds a device, and closes the page. */
async function startDeployment(nutshellEnv: Record<string, string> = {}) {
  const clock = { aheadMs: 0, now: () => Date.now() + clock.aheadMs };
  const deployment = await startNutshellDeployment({
    nutshellEnv: {
      FAKEWALLET_DELAY_INCOMING_PAYMENT: '1',
      MINT_QUOTE_TTL: '600',
      ...nutshellEnv,
    },
    overrides: { clock: clock.now },
  });
  onTestFinished(() => deployment[Symbol.asyncDispose]());
  const { service, mintUrl } = deployment;
  const { url, messages } = await startPushService();
  const device = new SubscribedBrowser(url);
  const wallet = new RecipientClient(service.publicOrigin, clock.now);
  const account = await openAccount(browser, wallet, {
    permissions: ['notifications'],
    prepare: (page) => stubPushService(page, device),
  });
  const context = account.context();
  await account.getByRole('button', { name: 'Tell me on this device' }).click();
  await account.getByText('The test was accepted.').waitFor();
  expect(device.decrypt(await messages.next()).title).toBe('Notifications work.');
  await account.close();

  const requestInvoice = async (query: string): Promise<string> => {
    const path = `/.well-known/lnurlp/${wallet.npub}?${query}`;
    return (await requestJson(service.url, path)).body.pr;
  };
  const receiveMessage = async () =>
    deliverPushMessage(context, service.publicOrigin, device.decrypt(await messages.next()));
  return { wallet, context, clock, mintUrl, messages, requestInvoice, receiveMessage };
}
