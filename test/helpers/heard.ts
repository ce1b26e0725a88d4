import { randomUUID } from 'node:crypto';
import { type Kysely, sql } from 'kysely';
import type { Database } from '../../src/store/database.ts';
import type { Listener, Listening } from '../../src/store/listen.ts';
import type { Schema } from '../../src/store/schema.ts';

/** Of nobody but these tests. */
const MARKS = 'nutpost_test_marks';

/** Who listens on a database. */
const listening = new WeakMap<Kysely<Schema>, Set<Ear>>();

/** A database that knows who listens on it, for {@link allHeard}. */
export function withEars(database: Database): Database {
  const ears = new Set<Ear>();
  listening.set(database.db, ears);
  return {
    ...database,
    listen: async (listener) => {
      const ear = new Ear(() => ears.delete(ear));
      await ear.listen(database, listener);
      ears.add(ear);
      return ear;
    },
  };
}

/**
 * Resolves when all who listen on a database have heard what was told so far. On a server that takes a
 * moment, and a test that changed something behind the back of a service must not ask it sooner.
 */
export async function allHeard({ db }: Database): Promise<void> {
  const mark = randomUUID();
  const heard = [...(listening.get(db) ?? [])].map((ear) => ear.hears(mark));
  await sql`select pg_notify(${MARKS}, ${mark})`.execute(db);
  await Promise.all(heard);
}

/** One who listens, by the marks that come between what is told. */
class Ear implements Listening {
  #listening: Listening | null = null;
  readonly #awaited = new Map<string, () => void>();
  readonly #onClose: () => void;

  constructor(onClose: () => void) {
    this.#onClose = onClose;
  }

  get isConnected(): boolean {
    return this.#listening?.isConnected ?? false;
  }

  get isHearing(): boolean {
    return this.#listening?.isHearing ?? false;
  }

  async listen(database: Database, listener: Listener): Promise<void> {
    const onMark = (mark: string) => this.#awaited.get(mark)?.();
    const channels = { ...listener.channels, [MARKS]: onMark };
    this.#listening = await database.listen({ ...listener, channels });
  }

  hears(mark: string): Promise<void> {
    return new Promise((resolve) => this.#awaited.set(mark, resolve));
  }

  /** Who listens no more has heard everything. */
  async close(): Promise<void> {
    this.#onClose();
    await this.#listening?.close();
    for (const resolve of this.#awaited.values()) {
      resolve();
    }
  }
}
