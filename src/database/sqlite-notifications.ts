import {
  dispatchNotification,
  type NotificationListener,
  type NotificationSubscription,
} from './postgres-notifications.ts';

/** How soon the service sees the changes of an operator command. */
const VERSION_POLL_INTERVAL_MS = 1_000;

/** Delivers notifications within the process that has the SQLite database open, and detects changes by other processes. */
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

  /** Reports a change by another process as missed notifications, because SQLite does not say what changed. */
  async listen(listener: NotificationListener): Promise<NotificationSubscription> {
    this.#listeners.add(listener);
    const readSnapshot = async () => ({
      atMs: listener.clock(),
      version: await this.#readVersion(),
    });
    let lastSeen = await readSnapshot();
    let checking: Promise<void> | null = null;
    const check = async () => {
      try {
        const now = await readSnapshot();
        if (now.version !== lastSeen.version) {
          await listener.onMissedNotifications(Math.min(lastSeen.atMs, now.atMs));
        }
        lastSeen = now;
      } catch {
        // The database is busy or its disk fails. The next check reports the same change.
      }
      checking = null;
    };
    const timer = setInterval(() => {
      checking ??= check();
    }, VERSION_POLL_INTERVAL_MS);
    return {
      isConnected: true,
      close: async () => {
        clearInterval(timer);
        this.#listeners.delete(listener);
        await checking;
      },
    };
  }
}
