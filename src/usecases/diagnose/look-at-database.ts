import { randomBytes } from 'node:crypto';
import type { Clock } from '../../domain/clock.ts';
import type { Database } from '../../store/database.ts';
import type { ExaminedSubjects } from '../../store/examination-store.ts';
import { Store } from '../../store/store.ts';
import type { DatabaseLook } from './database.ts';

/** A notification is there in milliseconds; one that is not by then never comes. */
const HEARD_WITHIN_MS = 3_000;

/** So that two who look at a time do not hear each other. */
const CHANNEL_BYTES = 8;

/** What was seen of the database, and when. Times in milliseconds since 1970. */
export interface SeenDatabase {
  look: DatabaseLook;
  /** Whether what one connection tells reaches another (LISTEN); null where that was not tried. */
  isHeard: boolean | null;
  askedAtMs: number;
  heardAtMs: number;
}

/**
 * Looks at an open database, and closes it.
 *
 * @param options.isServer then what one connection tells has to reach the others
 */
export async function lookInside(
  database: Database,
  subjects: ExaminedSubjects,
  options: { isServer: boolean; clock: Clock },
): Promise<SeenDatabase> {
  const { isServer, clock } = options;
  try {
    const store = new Store(database.db);
    const askedAtMs = clock();
    const facts = await store.examination.examine(subjects);
    const heardAtMs = clock();
    const canBeHeard = isServer && !facts.isReadOnly;
    const isHeard = canBeHeard ? await hearsItself(database, store, clock) : null;
    return { look: { outcome: 'seen', facts }, isHeard, askedAtMs, heardAtMs };
  } finally {
    await database.close();
  }
}

/** Whether what one connection tells reaches another. */
async function hearsItself(database: Database, store: Store, clock: Clock): Promise<boolean> {
  const channel = `nutpost_doctor_${randomBytes(CHANNEL_BYTES).toString('hex')}`;
  const heard = Promise.withResolvers<boolean>();
  const listening = await database.listen({
    channels: { [channel]: () => heard.resolve(true) },
    onGap: () => undefined,
    clock,
  });
  const silence = setTimeout(() => heard.resolve(false), HEARD_WITHIN_MS);
  try {
    await store.transaction((tx) => tx.notify(channel, ['']));
    return await heard.promise;
  } finally {
    clearTimeout(silence);
    await listening.close();
  }
}
