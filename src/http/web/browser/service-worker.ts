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
  data: { json(): { id: string; title: string; text: string; url: string } };
  /** That was clicked. */
  notification: Notification;
}

const { registration, clients } = self as unknown as WorkerScope;

on('push', (event) => {
  const { id, title, text, url } = event.data.json();
  // A message that is sent again after a crash replaces itself.
  const options = { tag: id, body: text, data: url, icon: '/favicon.ico' };
  return registration.showNotification(title, options);
});

on('notificationclick', async ({ notification }) => {
  notification.close();
  const url = new URL(notification.data, location.origin);
  const tabs = await clients.matchAll({ type: 'window', includeUncontrolled: true });
  const open = tabs.find((tab) => new URL(tab.url).pathname === url.pathname);
  await (open === undefined ? clients.openWindow(url) : open.focus());
});

function on(type: string, handle: (event: WorkerEvent) => Promise<unknown>): void {
  addEventListener(type, (event) => {
    (event as WorkerEvent).waitUntil(handle(event as WorkerEvent));
  });
}
