import { randomUUID } from 'node:crypto';
import { type Kysely, sql } from 'kysely';
import { onTestFinished } from 'vitest';
import type { Database } from '../../src/database/database.ts';
import type { Schema } from '../../src/database/schema.ts';

/** A channel that only {@link allHeard} uses. */
const MARKS = 'nutpost_test_marks';

/** For each listener on a database, the marks that a test waits for. */
type Listeners = Set<Map<string, () => void>>;

const listenersOf = new WeakMap<Kysely<Schema>, Listeners>();

/** Wraps a database so that {@link allHeard} knows its listeners. */
export function withEars(database: Database): Database {
  const listeners: Listeners = new Set();
  listenersOf.set(database.db, listeners);
  return {
    ...database,
    listen: async (listener) => {
      const awaited = new Map<string, () => void>();
      const onMark = (mark: string) => awaited.get(mark)?.();
      const channels = { ...listener.channels, [MARKS]: onMark };
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
 * changes the database directly must wait for this before it asks the service.
 */
export async function allHeard({ db }: Database): Promise<void> {
  const mark = randomUUID();
  const heard = [...(listenersOf.get(db) ?? [])].map(
    (awaited) => new Promise<void>((resolve) => awaited.set(mark, resolve)),
  );
  await sql`select pg_notify(${MARKS}, ${mark})`.execute(db);
  await Promise.all(heard);
}

/**
 * Listens to a channel of a database until the test ends.
 *
 * @returns a function that returns the payloads committed since its last call, in order
 */
export async function listenTo(
  database: Database,
  channel: string,
): Promise<() => Promise<string[]>> {
  const payloads: string[] = [];
  const listening = await database.listen({
    channels: { [channel]: (payload) => payloads.push(payload) },
    onGap: () => undefined,
    onError: () => undefined,
    clock: Date.now,
  });
  onTestFinished(() => listening.close());
  return async () => {
    await allHeard(database);
    return payloads.splice(0);
  };
}
