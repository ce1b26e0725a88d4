import type { BrowserContext, Page, Worker } from 'playwright-core';
import type { SubscribedBrowser } from '../network/start-push-service.ts';

/** No push service can be reached, so the page subscribes to one of the test. */
export async function stubPushService(
  page: Page,
  { subscription }: SubscribedBrowser,
): Promise<void> {
  const json = JSON.stringify(subscription);
  await page.addInitScript(`
    const unsubscribe = async () => { globalThis.hasUnsubscribed = true; };
    const subscribe = async () => ({ ...${json}, toJSON: () => (${json}), unsubscribe });
    Object.assign(PushManager.prototype, { subscribe, getSubscription: subscribe });`);
}

/** Gives a message to the service worker of an origin, as the browser does. No page of the origin needs to be open. */
export async function deliverPushMessage(
  context: BrowserContext,
  origin: string,
  message: object,
): Promise<void> {
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  const registered = Promise.withResolvers<string>();
  session.on('ServiceWorker.workerRegistrationUpdated', ({ registrations: [registration] }) => {
    if (registration !== undefined) {
      registered.resolve(registration.registrationId);
    }
  });
  await session.send('ServiceWorker.enable');
  await session.send('ServiceWorker.deliverPushMessage', {
    origin,
    registrationId: await registered.promise,
    data: JSON.stringify(message),
  });
  await page.close();
}

/** Returns the notifications that are shown. Chromium closes each after some seconds. */
export function readNotifications(
  context: BrowserContext,
): Promise<{ title: string; body: string }[]> {
  return getWorker(context).evaluate(`(async () =>
    (await registration.getNotifications()).map(({ title, body }) => ({ title, body })))()`);
}

/** Clicks a notification. Only a real click may open a tab, so this returns the tab that would open or get the focus. */
export function clickNotification(context: BrowserContext, title: string): Promise<string> {
  return getWorker(context).evaluate(`new Promise(async (resolve) => {
    clients.openWindow = async (url) => resolve(String(url));
    WindowClient.prototype.focus = async function () { resolve('focus ' + this.url); };
    const notifications = await registration.getNotifications();
    const notification = notifications.find((each) => each.title === ${JSON.stringify(title)});
    dispatchEvent(new NotificationEvent('notificationclick', { notification }));
  })`);
}

function getWorker(context: BrowserContext): Worker {
  const [worker] = context.serviceWorkers();
  if (worker === undefined) {
    throw new Error('no service worker is running');
  }
  return worker;
}
