import { deliver, type Listener, type Listening } from './listen.ts';

/** What an operator command changes is seen after this time. */
const CHECK_EVERY_MS = 1_000;

/** The notifications within the process that has a SQLite database open, and changes by other processes. */
export class LocalNotifications {
  readonly #readVersion: () => Promise<number>;
  readonly #listeners = new Set<Listener>();

  /** @param readVersion returns another number after another process has written to the database */
  constructor(readVersion: () => Promise<number>) {
    this.#readVersion = readVersion;
  }

  emit(channel: string, payload: string): void {
    for (const listener of this.#listeners) {
      deliver(listener, channel, payload);
    }
  }

  /** SQLite does not say what another process changed, so the listener is to expect anything since the last check. */
  async listen(listener: Listener): Promise<Listening> {
    this.#listeners.add(listener);
    const look = async () => ({ atMs: listener.clock(), version: await this.#readVersion() });
    let seen = await look();
    let checking: Promise<void> | null = null;
    const check = async () => {
      try {
        const now = await look();
        if (now.version !== seen.version) {
          await listener.onGap(Math.min(seen.atMs, now.atMs));
        }
        seen = now;
      } catch {
        // The database is busy or its disk fails: the next check reports the same gap.
      }
      checking = null;
    };
    const timer = setInterval(() => {
      checking ??= check();
    }, CHECK_EVERY_MS);
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
