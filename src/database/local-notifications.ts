import type { DatabaseSync } from 'node:sqlite';
import { deliver, type Listener, type Listening } from './listen.ts';

/** What an operator command changes is seen after this time. */
const CHECK_EVERY_MS = 1_000;

/** The notifications within the process that has a SQLite database open, and changes by other processes. */
export class LocalNotifications {
  readonly #database: DatabaseSync;
  readonly #listeners = new Set<Listener>();

  constructor(database: DatabaseSync) {
    this.#database = database;
  }

  emit(channel: string, payload: string): void {
    for (const listener of this.#listeners) {
      deliver(listener, channel, payload);
    }
  }

  /** SQLite does not say what another process changed, so the listener is to expect anything since the last check. */
  listen(listener: Listener): Listening {
    this.#listeners.add(listener);
    const version = this.#database.prepare('pragma data_version');
    const look = () => ({ version: version.get()?.['data_version'], atMs: listener.clock() });
    let seen = look();
    const check = async () => {
      const before = seen;
      try {
        seen = look();
        if (seen.version !== before.version) {
          await listener.onGap(Math.min(before.atMs, seen.atMs));
        }
      } catch {
        // The database is busy or its disk fails: the next check reports the same gap.
        seen = before;
      }
    };
    const checking = setInterval(() => void check(), CHECK_EVERY_MS);
    return {
      isConnected: true,
      close: async () => {
        clearInterval(checking);
        this.#listeners.delete(listener);
      },
    };
  }
}
