import { randomUUID } from 'node:crypto';
import { type Kysely, sql } from 'kysely';
import type { Database } from '../../src/store/database.ts';
import type { Schema } from '../../src/store/schema.ts';

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
 * Resolves when all listeners on a database have received the notifications sent so far: after changing
 * something directly in the database, a test must not ask the service earlier.
 */
export async function allHeard({ db }: Database): Promise<void> {
  const mark = randomUUID();
  const heard = [...(listenersOf.get(db) ?? [])].map(
    (awaited) => new Promise<void>((resolve) => awaited.set(mark, resolve)),
  );
  await sql`select pg_notify(${MARKS}, ${mark})`.execute(db);
  await Promise.all(heard);
}
