import { expect, it } from 'vitest';
import { SubscribedBrowser, startPushService } from '../helpers/network/start-push-service.ts';
import { receivePayment, useTestEnvironment } from '../helpers/service/test-environment.ts';
import { inspectPage } from '../helpers/web/inspect-page.ts';
import { openAccount, section } from '../helpers/web/pages.ts';
import {
  clickNotification,
  deliverPushMessage,
  readNotifications,
  stubPushService,
} from '../helpers/web/push-messages.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

const environment = useTestEnvironment();
const browser = useBrowser({ showsNotifications: true });

it('adds this device, which shows a payment, and opens the page for collecting', async () => {
  const { url, messages } = await startPushService();
  const device = new SubscribedBrowser(`${url}/device`);
  const wallet = environment.newWallet();
  const page = await openAccount(browser, wallet, {
    permissions: ['notifications'],
    prepare: (newPage) => stubPushService(newPage, device),
  });
  const context = page.context();
  // Again until it is shown, because Chromium closes notifications after some seconds.
  const deliver = async (delivered: object) => {
    await deliverPushMessage(context, environment.origin, delivered);
    return await readNotifications(context);
  };
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
  const title = '21 sats received';
  await expect
    .poll(() => deliver(message))
    .toEqual([{ title, body: expect.stringContaining('“Table 4”') }]);
  const reminder = { ...message, id: 'msg_reminder', title: 'Not collected yet: 21 sats' };
  await expect
    .poll(() => deliver(reminder))
    .toEqual([{ title: reminder.title, body: expect.any(String) }]);
  expect(await clickNotification(context, reminder.title)).toBe(
    `${environment.origin}/collect?lang=en`,
  );

  await expect.poll(() => readNotifications(context)).toEqual([]);
  const collect = await context.newPage();
  await collect.goto(`${environment.origin}/collect`);
  // The browser may close a notification later than it shows the next one with the same tag, and then closes that one.
  await expect.poll(() => deliver({ ...message, tag: 'another payment' })).toHaveLength(1);
  expect(await clickNotification(context, title)).toBe(`focus ${environment.origin}/collect`);
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
