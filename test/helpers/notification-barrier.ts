import { randomUUID } from 'node:crypto';
import { type Kysely, sql } from 'kysely';
import { onTestFinished } from 'vitest';
import type { Database } from '../../src/database/database.ts';
import type { DatabaseSchema } from '../../src/database/schema.ts';

/** A channel that only {@link waitForNotifications} uses. */
const BARRIER_CHANNEL = 'nutpost_test_marks';

/** The pending barriers of each listener on a database. */
type PendingBarriers = Set<Map<string, () => void>>;

const trackedListeners = new WeakMap<Kysely<DatabaseSchema>, PendingBarriers>();

/** Wraps a database so that {@link waitForNotifications} can track its listeners. */
export function trackListeners(database: Database): Database {
  const listeners: PendingBarriers = new Set();
  trackedListeners.set(database.db, listeners);
  return {
    ...database,
    listen: async (listener) => {
      const awaited = new Map<string, () => void>();
      const onMark = (mark: string) => awaited.get(mark)?.();
      const channels = { ...listener.channels, [BARRIER_CHANNEL]: onMark };
      const listening = await database.listen({ ...listener, channels });
      listeners.add(awaited);
      return {
        get isConnected() {
          return listening.isConnected;
        },
        close: async () => {
          listeners.delete(awaited);
          await listening.close();
          for (const resolve of awaited.values()) {
            resolve();
          }
        },
      };
    },
  };
}

/**
 * Resolves when all listeners on a database have received the notifications sent so far. A test that
 * changes the database directly must wait for this before it calls the service.
 */
export async function waitForNotifications({ db }: Database): Promise<void> {
  const mark = randomUUID();
  const heard = [...(trackedListeners.get(db) ?? [])].map(
    (awaited) => new Promise<void>((resolve) => awaited.set(mark, resolve)),
  );
  await sql`select pg_notify(${BARRIER_CHANNEL}, ${mark})`.execute(db);
  await Promise.all(heard);
}

/**
 * Listens to a channel of a database until the test ends.
 *
 * @returns a function that returns the payloads committed since its last call, in order
 */
export async function recordNotifications(
  database: Database,
  channel: string,
): Promise<() => Promise<string[]>> {
  const payloads: string[] = [];
  const listening = await database.listen({
    channels: { [channel]: (payload) => payloads.push(payload) },
    onMissedNotifications: () => undefined,
    onError: () => undefined,
    clock: Date.now,
  });
  onTestFinished(() => listening.close());
  return async () => {
    await waitForNotifications(database);
    return payloads.splice(0);
  };
}
