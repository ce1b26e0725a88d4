import { type Kysely, sql } from 'kysely';
import { databaseNow } from '../database/dialect.ts';
import { MigrationStore } from '../database/migration-store.ts';
import type { Schema } from '../database/schema.ts';
import { MintStore } from './mint-store.ts';

/** The state of a database, for `nutpost doctor`. */
export interface DatabaseFacts {
  server: ServerFacts;
  /** Migrations of this version that were not applied. */
  missingMigrations: readonly string[];
  /** Applied migrations that this version does not know. */
  unknownMigrations: readonly string[];
  /** Null if the tables are not those of this version. */
  contents: DatabaseContents | null;
}

/** What PostgreSQL reports about itself. */
export interface ServerFacts {
  /** Such as `17.6`. */
  version: string;
  /** Such as 17. */
  majorVersion: number;
  /** The clock of the database, in milliseconds since 1970. */
  nowMs: number;
  /** Whether a crash loses no committed transaction: `fsync`, `synchronous_commit`, `full_page_writes`. */
  isDurable: boolean;
  /** A standby, a database that is set to be read-only, or a user that may not write to the tables. */
  isReadOnly: boolean;
  maxConnections: number;
  /** Of all users. */
  usedConnections: number;
}

/** What the tables contain. */
export interface DatabaseContents {
  /** Processes of the service that are running. */
  processes: number;
  /** The rate limits of a mint that the service has learned; null if there are none. */
  knownLimits: unknown;
}

/** Reads the state of a database, whatever version its tables have. Changes nothing. */
export class ExaminationStore {
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
  }

  /** @param mintUrl the mint whose rate limits are read */
  async examine(mintUrl: string): Promise<DatabaseFacts> {
    const server = await this.#server();
    const { missing, unknown } = await new MigrationStore(this.#db).compare();
    const isCurrent = missing.length === 0 && unknown.length === 0;
    return {
      server,
      missingMigrations: missing,
      unknownMigrations: unknown,
      contents: isCurrent ? await this.#contents(mintUrl) : null,
    };
  }

  async #server(): Promise<ServerFacts> {
    const { rows } = await sql<ServerFacts>`
      select
        current_setting('server_version') as "version",
        current_setting('server_version_num')::int / 10000 as "majorVersion",
        (extract(epoch from clock_timestamp()) * 1000)::float8 as "nowMs",
        current_setting('fsync') = 'on' and current_setting('full_page_writes') = 'on'
          and current_setting('synchronous_commit') <> 'off' as "isDurable",
        pg_is_in_recovery() or current_setting('transaction_read_only') = 'on'
          or not coalesce(has_table_privilege(to_regclass('quotes'), 'insert'), true) as "isReadOnly",
        current_setting('max_connections')::int
          - current_setting('superuser_reserved_connections')::int as "maxConnections",
        -- pg_stat_activity hides the connections of other users.
        (select coalesce(sum(numbackends), 0) from pg_stat_database)::int as "usedConnections"
    `.execute(this.#db);
    const [row] = rows;
    if (row === undefined) {
      throw new Error('the server reports nothing about itself');
    }
    return row;
  }

  async #contents(mintUrl: string): Promise<DatabaseContents> {
    const running = await this.#db
      .selectFrom('watch_processes')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('alive_until', '>', databaseNow(this.#db))
      .executeTakeFirstOrThrow();
    const knownLimits = await new MintStore(this.#db).readRateLimits(mintUrl);
    return { processes: running.count, knownLimits };
  }
}
