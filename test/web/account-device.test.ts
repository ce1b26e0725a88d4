import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { SubscribedBrowser, startPushService } from '../helpers/network/start-push-service.ts';
import { receivePayment, useTestEnvironment } from '../helpers/service/test-environment.ts';
import { inspectPage } from '../helpers/web/inspect-page.ts';
import { openAccount, section } from '../helpers/web/pages.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

const environment = useTestEnvironment();
const browser = useBrowser();

it('adds this device, which shows a payment, and opens the page for collecting', async () => {
  const { url, messages } = await startPushService();
  const device = new SubscribedBrowser(`${url}/device`);
  const wallet = environment.newWallet();
  const page = await openAccount(browser, wallet, {
    permissions: ['notifications'],
    prepare: (newPage) => stubPushService(newPage, device),
  });
  const notifications = section(page, 'Notifications');
  const press = (name: string) => notifications.getByRole('button', { name }).click();
  await notifications.getByRole('checkbox', { name: 'Show comments' }).check();
  await inspectPage(page, 'account-device');
  await press('Tell me on this device');
  await notifications.getByText('Payments are shown on this device.').waitFor();
  await notifications.getByText('The test was accepted.').waitFor();
  expect(device.decrypt(await messages.next()).title).toBe('Notifications work.');

  await receivePayment(environment, wallet, 'amount=21000&comment=Table%204');
  const message = device.decrypt(await messages.next());
  await deliver(page, message);
  expect(await readNotifications(page)).toEqual([
    { title: '21 sats received', body: expect.stringContaining('“Table 4”') },
  ]);
  expect(await click(page)).toBe(`${environment.origin}/collect?lang=en`);

  await deliver(page, message);
  await readNotifications(page);
  const collect = await page.context().newPage();
  await collect.goto(`${environment.origin}/collect`);
  expect(await click(page)).toBe(`focus ${environment.origin}/collect`);
  await collect.close();

  await page.reload();
  await notifications.getByText('Payments are shown on this device.').waitFor();
  await press('Remove');
  await notifications.getByRole('button', { name: 'Tell me on this device' }).waitFor();
  expect((await wallet.get('/api/v2/user/notifications')).body.data.channels).toEqual([]);
  expect(await page.evaluate('globalThis.hasUnsubscribed')).toBeUndefined();

  await press('Tell me on this device');
  await notifications.getByText('The test was accepted.').waitFor();
  await environment.database.db
    .updateTable('notification_channels')
    .set({ disabled_at: Date.now(), last_error: 'HTTP 410' })
    .execute();
  await page.reload();
  await notifications.getByText('or is gone (HTTP 410)').waitFor();
  await press('Remove');
  await expect.poll(() => page.evaluate('globalThis.hasUnsubscribed')).toBe(true);
});

it('lists other devices, and says why this one cannot be added', async () => {
  const wallet = environment.newWallet();
  const { subscription } = new SubscribedBrowser('https://push.example/other');
  const channels = [{ kind: 'web_push', subscription }];
  await wallet.send('PUT', '/api/v2/user/notifications', { channels });
  const old = await openAccount(browser, wallet, {
    prepare: (page) => page.addInitScript('delete globalThis.PushManager'),
  });
  await section(old, 'Notifications').getByText('first add this page to the home screen').waitFor();
  const blocked = await openAccount(browser, wallet, {
    prepare: (page) =>
      page.addInitScript(`Object.defineProperty(Notification, 'permission', { value: 'denied' })`),
  });
  const notifications = section(blocked, 'Notifications');
  await notifications.getByText('Notifications are not allowed.').waitFor();
  await notifications.getByText(/^Another device, added on .*, through push.example\./).waitFor();
  await inspectPage(blocked, 'account-devices');
  await notifications.getByRole('button', { name: 'Remove' }).click();
  await notifications.getByText('Another device').waitFor({ state: 'detached' });
});

it('explains that the browser reaches no push service, and that the user has not allowed it', async () => {
  const wallet = environment.newWallet();
  const page = await openAccount(browser, wallet, {
    permissions: ['notifications'],
    expectedErrors: /does not support the Push API in incognito mode/,
  });
  const notifications = section(page, 'Notifications');
  const add = notifications.getByRole('button', { name: 'Tell me on this device' });
  await add.click();
  await notifications.getByText('did not get a connection to its push service').waitFor();
  await page.context().clearPermissions();
  await add.click();
  await notifications.getByText('Notifications are not allowed.').waitFor();
});

/** No push service can be reached, so the page subscribes to one of this test. */
async function stubPushService(page: Page, { subscription }: SubscribedBrowser): Promise<void> {
  const json = JSON.stringify(subscription);
  await page.addInitScript(`
    const unsubscribe = async () => { globalThis.hasUnsubscribed = true; };
    const subscribe = async () => ({ ...${json}, toJSON: () => (${json}), unsubscribe });
    Object.assign(PushManager.prototype, { subscribe, getSubscription: subscribe });`);
}

/** Gives a message to the service worker, as the browser does. */
async function deliver(page: Page, message: object): Promise<void> {
  const session = await page.context().newCDPSession(page);
  const registered = Promise.withResolvers<string>();
  session.on('ServiceWorker.workerRegistrationUpdated', ({ registrations: [registration] }) => {
    if (registration !== undefined) {
      registered.resolve(registration.registrationId);
    }
  });
  await session.send('ServiceWorker.enable');
  await session.send('ServiceWorker.deliverPushMessage', {
    origin: new URL(page.url()).origin,
    registrationId: await registered.promise,
    data: JSON.stringify(message),
  });
}

async function readNotifications(page: Page): Promise<{ title: string; body: string }[]> {
  const read = `navigator.serviceWorker.ready.then(async (registration) =>
    (await registration.getNotifications()).map(({ title, body }) => ({ title, body })))`;
  await expect.poll(() => page.evaluate(read)).not.toEqual([]);
  return await page.evaluate(read);
}

/** Clicks the notification. Only a real click may open a tab, so this returns the tab that would open or get the focus. */
async function click(page: Page): Promise<string> {
  const [worker] = page.context().serviceWorkers();
  expect(worker).toBeDefined();
  return (await worker?.evaluate(`new Promise(async (resolve) => {
    clients.openWindow = async (url) => resolve(String(url));
    WindowClient.prototype.focus = async function () { resolve('focus ' + this.url); };
    const [notification] = await registration.getNotifications();
    dispatchEvent(new NotificationEvent('notificationclick', { notification }));
  })`)) as string;
}
