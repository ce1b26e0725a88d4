import { type Kysely, sql } from 'kysely';
import type { Schema } from './schema.ts';

/**
 * So long one run may be silent about an operation, by the database's clock: longer than any single
 * request to a mint takes, before each of which it says that it is still at it.
 */
const DRIVER_SECONDS = 30;

/** The tables whose rows are operations with a mint: begun, then done or undone. */
type OperationTable = 'username_purchases' | 'treasury_withdrawals';

/**
 * Who works on an operation, so that no two do. A run that died is followed by another once its time is
 * over.
 */
export class DrivenOperations {
  readonly #db: Kysely<Schema>;
  readonly #table: OperationTable;

  constructor(db: Kysely<Schema>, table: OperationTable) {
    this.#db = db;
    this.#table = table;
  }

  /**
   * Takes an open operation.
   *
   * @param driver names one run
   * @returns false where another run has it, or it has ended
   */
  async drive(id: string, driver: string): Promise<boolean> {
    const result = await sql`
      update ${sql.table(this.#table)}
      set driver = ${driver}, driver_until = ${fromNow(DRIVER_SECONDS)}
      where id = ${id} and state = 'open'
        and (driver is null or driver_until < clock_timestamp()
          or driver_until > ${fromNow(DRIVER_SECONDS)})
    `.execute(this.#db);
    return result.numAffectedRows === 1n;
  }

  /**
   * Goes on having an operation. A run that slept does not get it back: what it knew may be no longer so.
   *
   * @returns false where another run had it since, or it has ended
   */
  async keep(id: string, driver: string): Promise<boolean> {
    const result = await sql`
      update ${sql.table(this.#table)} set driver_until = ${fromNow(DRIVER_SECONDS)}
      where id = ${id} and driver = ${driver} and state = 'open'
    `.execute(this.#db);
    return result.numAffectedRows === 1n;
  }

  /**
   * Leaves an operation that cannot be ended now, for another run.
   *
   * @param options.reason why it waits, in a few words
   * @param options.nextTryAtMs when its end is looked for again
   * @param options.doubtedAtMs when it first seemed to have come to nothing; null: it does not
   */
  async postpone(
    id: string,
    driver: string,
    options: { reason: string; nextTryAtMs: number; doubtedAtMs: number | null },
  ): Promise<void> {
    const doubtedAt = options.doubtedAtMs === null ? null : new Date(options.doubtedAtMs);
    await sql`
      update ${sql.table(this.#table)}
      set driver = null, driver_until = null, tries = tries + 1, reason = ${options.reason},
        next_try_at = ${new Date(options.nextTryAtMs)}, doubted_at = ${doubtedAt}
      where id = ${id} and driver = ${driver} and state = 'open'
    `.execute(this.#db);
  }

  /**
   * The operations whose end is to be looked for now, the longest waiting first.
   *
   * @param latestMs nothing is planned for later: where it is, the clock was ahead
   */
  async due(nowMs: number, latestMs: number, limit: number): Promise<string[]> {
    const { rows } = await sql<{ id: string }>`
      select id from ${sql.table(this.#table)}
      where state = 'open'
        and (next_try_at <= ${new Date(nowMs)} or next_try_at > ${new Date(latestMs)})
        and (driver is null or driver_until < clock_timestamp()
          or driver_until > ${fromNow(DRIVER_SECONDS)})
      order by next_try_at
      limit ${limit}
    `.execute(this.#db);
    return rows.map(({ id }) => id);
  }

  /** Forgets who is at what, where nobody can be: an embedded database has one process at a time. */
  async abandonAll(): Promise<void> {
    await sql`
      update ${sql.table(this.#table)} set driver = null, driver_until = null
      where driver is not null
    `.execute(this.#db);
  }
}

/** A time by the database's clock. */
function fromNow(seconds: number) {
  return sql<Date>`clock_timestamp() + make_interval(secs => ${seconds})`;
}
