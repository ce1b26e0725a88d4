/** Shows the notifications that the server sends (Web Push), also while no page is open. A click opens a page. */

/** Of `ServiceWorkerGlobalScope`, whose types TypeScript does not have together with those of pages. */
interface WorkerScope {
  registration: ServiceWorkerRegistration;
  clients: {
    matchAll(options: { type: 'window'; includeUncontrolled: true }): Promise<Tab[]>;
    openWindow(url: URL): Promise<unknown>;
  };
}

interface Tab {
  url: string;
  focus(): Promise<unknown>;
}

interface WorkerEvent extends Event {
  waitUntil(promise: Promise<unknown>): void;
  /** Of a push message. */
  data: { json(): Record<'id' | 'tag' | 'title' | 'text' | 'url', string> };
  /** That was clicked. */
  notification: Notification;
}

const { registration, clients } = self as unknown as WorkerScope;

on('push', async (event) => {
  const { id, tag, title, text, url } = event.data.json();
  const [replaced] = await registration.getNotifications({ tag });
  // A reminder replaces the notification of the same payments, and alerts again. A message that is sent again does not.
  const renotify = replaced !== undefined && replaced.data.id !== id;
  const options = { tag, renotify, body: text, data: { id, url }, icon: '/favicon.ico' };
  await registration.showNotification(title, options);
});

on('notificationclick', async ({ notification }) => {
  notification.close();
  const url = new URL(notification.data.url, location.origin);
  const tabs = await clients.matchAll({ type: 'window', includeUncontrolled: true });
  const open = tabs.find((tab) => new URL(tab.url).pathname === url.pathname);
  await (open === undefined ? clients.openWindow(url) : open.focus());
});

function on(type: string, handle: (event: WorkerEvent) => Promise<unknown>): void {
  addEventListener(type, (event) => {
    (event as WorkerEvent).waitUntil(handle(event as WorkerEvent));
  });
}
