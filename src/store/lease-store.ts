import { type Kysely, sql } from 'kysely';
import type { Schema } from './schema.ts';

/**
 * How long a process counts as alive after it last said so, by the database's clock. Its mints are
 * taken over after that; a pause or a slow database of a few seconds must not cost it them.
 */
const ALIVE_FOR_SECONDS = 15;

/**
 * A process that is said to be alive for longer said so before the database's clock went back. Those of
 * them that are alive say so anew within seconds; one that is dead would keep its mints all that time.
 */
const MAX_ALIVE_FOR_SECONDS = 2 * ALIVE_FOR_SECONDS;

/** Which process watches which mint. A process holds one row of its own; its mints go with it. */
export class LeaseStore {
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
  }

  /**
   * Says that a process is alive, and removes others that are not. However late it says so: while its
   * row is there, nobody took its mints.
   *
   * @returns whether the process was known: where it was not, it holds no mint any longer
   */
  async keepAlive(processId: string): Promise<boolean> {
    await this.#db
      .deleteFrom('watch_processes')
      .where('id', '<>', processId)
      .where((row) =>
        row.or([
          row('alive_until', '<', fromNow(0)),
          row('alive_until', '>', fromNow(MAX_ALIVE_FOR_SECONDS)),
        ]),
      )
      .execute();
    const aliveUntil = fromNow(ALIVE_FOR_SECONDS);
    const renewed = await this.#db
      .updateTable('watch_processes')
      .set({ alive_until: aliveUntil })
      .where('id', '=', processId)
      .executeTakeFirst();
    if (renewed.numUpdatedRows === 1n) {
      return true;
    }
    await this.#db
      .insertInto('watch_processes')
      .values({ id: processId, alive_until: aliveUntil })
      .execute();
    return false;
  }

  /** How many processes share the work. */
  async countProcesses(): Promise<number> {
    const { count } = await this.#db
      .selectFrom('watch_processes')
      .select((select) => select.fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow();
    return Number(count);
  }

  /**
   * Takes mints that no process has.
   *
   * @returns those that were had; others came first to the rest
   */
  async claim(processId: string, mintUrls: readonly string[]): Promise<string[]> {
    const { rows } = await sql<{ mint_url: string }>`
      insert into mint_leases (mint_url, owner)
      select mint_url, watch_processes.id
      from json_array_elements_text(${JSON.stringify(mintUrls)}::json) as mint_url
      join watch_processes on watch_processes.id = ${processId}
      order by mint_url
      on conflict (mint_url) do nothing
      returning mint_url
    `.execute(this.#db);
    return rows.map((row) => row.mint_url);
  }

  /** Gives a mint up, for any process to take. */
  async release(processId: string, mintUrl: string): Promise<void> {
    await this.#db
      .deleteFrom('mint_leases')
      .where('mint_url', '=', mintUrl)
      .where('owner', '=', processId)
      .execute();
  }

  /** Takes leave: all mints of this process are free at once. */
  async leave(processId: string): Promise<void> {
    await this.#db.deleteFrom('watch_processes').where('id', '=', processId).execute();
  }

  /** Forgets every process, where none can be alive: an embedded database has one at a time. */
  async clear(): Promise<void> {
    await this.#db.deleteFrom('watch_processes').execute();
  }
}

/** A time by the database's clock. */
function fromNow(seconds: number) {
  return sql<Date>`clock_timestamp() + make_interval(secs => ${seconds})`;
}
