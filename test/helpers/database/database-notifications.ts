import { randomUUID } from 'node:crypto';
import { type Kysely, sql } from 'kysely';
import { onTestFinished } from 'vitest';
import type { Database } from '../../../src/database/database.ts';
import type { DatabaseSchema } from '../../../src/database/schema.ts';

/** {@link waitForNotificationDelivery} sends its markers on this channel. */
const MARKER_CHANNEL = 'nutpost_test_markers';

/** Contains, for each marker, the function to call when a listener receives the marker. */
type AwaitedMarkers = Map<string, () => void>;

const listenersByDatabase = new WeakMap<Kysely<DatabaseSchema>, Set<AwaitedMarkers>>();

/** Wraps a database so that {@link waitForNotificationDelivery} waits for all of its listeners. */
export function trackDatabaseListeners(database: Database): Database {
  const listeners = new Set<AwaitedMarkers>();
  listenersByDatabase.set(database.db, listeners);
  return {
    ...database,
    listen: async (listener) => {
      const awaitedMarkers: AwaitedMarkers = new Map();
      const onMarker = (marker: string) => awaitedMarkers.get(marker)?.();
      const channels = { ...listener.channels, [MARKER_CHANNEL]: onMarker };
      const subscription = await database.listen({ ...listener, channels });
      listeners.add(awaitedMarkers);
      return {
        get isConnected() {
          return subscription.isConnected;
        },
        close: async () => {
          listeners.delete(awaitedMarkers);
          await subscription.close();
          for (const resolve of awaitedMarkers.values()) {
            resolve();
          }
        },
      };
    },
  };
}

/**
 * Waits until all listeners on a database have received the notifications sent so far. Notifications arrive in order,
 * so this function sends a marker and waits until each listener has received the marker. A test that changes the
 * database directly must call this function before it calls the service.
 */
export async function waitForNotificationDelivery({ db }: Database): Promise<void> {
  const marker = randomUUID();
  const deliveries = [...(listenersByDatabase.get(db) ?? [])].map(
    (awaitedMarkers) => new Promise<void>((resolve) => awaitedMarkers.set(marker, resolve)),
  );
  await sql`select pg_notify(${MARKER_CHANNEL}, ${marker})`.execute(db);
  await Promise.all(deliveries);
}

/**
 * Listens to a channel of a database until the test ends.
 *
 * @returns a function that returns the payloads of the notifications since its last call, oldest first
 */
export async function recordNotifications(
  database: Database,
  channel: string,
): Promise<() => Promise<string[]>> {
  const payloads: string[] = [];
  const subscription = await database.listen({
    channels: { [channel]: (payload) => payloads.push(payload) },
    onMissedNotifications: () => undefined,
    onError: () => undefined,
    clock: Date.now,
  });
  onTestFinished(() => subscription.close());
  return async () => {
    await waitForNotificationDelivery(database);
    return payloads.splice(0);
  };
}
