import { VERSION_POLL_INTERVAL_MS } from './limits.ts';
import {
  dispatchNotification,
  type NotificationListener,
  type NotificationSubscription,
} from './postgres-notifications.ts';

/** Delivers the notifications of this process to itself, and detects that other processes changed the database. */
export class SqliteNotifications {
  readonly #readVersion: () => Promise<number>;
  readonly #listeners = new Set<NotificationListener>();

  /** @param readVersion returns a number that changes when another process writes to the database */
  constructor(readVersion: () => Promise<number>) {
    this.#readVersion = readVersion;
  }

  emit(channel: string, payload: string): void {
    for (const listener of this.#listeners) {
      dispatchNotification(listener, channel, payload);
    }
  }

  /** Reports a change by another process as missed notifications, because SQLite does not report what changed. */
  async listen(listener: NotificationListener): Promise<NotificationSubscription> {
    this.#listeners.add(listener);
    const readSnapshot = async () => ({
      atMs: listener.clock(),
      version: await this.#readVersion(),
    });
    let lastSeen = await readSnapshot();
    let currentCheck: Promise<void> | null = null;
    const check = async () => {
      try {
        const current = await readSnapshot();
        if (current.version !== lastSeen.version) {
          await listener.onMissedNotifications(Math.min(lastSeen.atMs, current.atMs));
        }
        lastSeen = current;
      } catch {
        // The database is busy or its disk fails. The next check will report the change.
      }
      currentCheck = null;
    };
    const timer = setInterval(() => {
      currentCheck ??= check();
    }, VERSION_POLL_INTERVAL_MS);
    return {
      isConnected: true,
      close: async () => {
        clearInterval(timer);
        this.#listeners.delete(listener);
        await currentCheck;
      },
    };
  }
}
