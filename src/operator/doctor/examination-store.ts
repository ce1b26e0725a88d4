import { sql } from 'kysely';
import { MigrationStore } from '../../database/migration-store.ts';
import { DatabaseStore, databaseNow } from '../../database/sql.ts';
import { MintStore } from '../../mints/mint-store.ts';

/** A larger file is not checked: half a second for this much, several if the disk is slow. */
const MAX_CHECKED_BYTES = 256 * 1024 * 1024;

/** The state of the tables, for `nutpost doctor`. */
export interface TableFacts {
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
  /** Its clock, in milliseconds since 1970. */
  nowMs: number;
  /** Whether a crash loses no committed transaction: `fsync`, `synchronous_commit`, `full_page_writes`. */
  isDurable: boolean;
  /** A standby, a database that is set to be read-only, or a user that may not write to the tables. */
  isReadOnly: boolean;
  maxConnections: number;
  /** Of all users. */
  usedConnections: number;
}

/** What SQLite reports about itself and its file. */
export interface SqliteFacts {
  /** Such as `3.53.0`. */
  version: string;
  /** The first damage that a check found; null if there is none, or the file is too large for a check. */
  damage: string | null;
}

export interface DatabaseContents {
  /** Processes of the service that are running. */
  processes: number;
  /** The rate limits of a mint that the service has learned; null if there are none. */
  knownLimits: unknown;
}

/** Reads the state of a database, whatever version its tables have. Changes nothing. */
export class ExaminationStore extends DatabaseStore {
  /** @param mintUrl the mint whose rate limits are read */
  async tables(mintUrl: string): Promise<TableFacts> {
    const { missing, unknown } = await new MigrationStore(this.db).compare();
    const isCurrent = missing.length === 0 && unknown.length === 0;
    return {
      missingMigrations: missing,
      unknownMigrations: unknown,
      contents: isCurrent ? await this.#contents(mintUrl) : null,
    };
  }

  /** On PostgreSQL only. */
  async server(): Promise<ServerFacts> {
    const { rows } = await sql<ServerFacts>`
      select
        current_setting('server_version') as "version",
        current_setting('server_version_num')::int / 10000 as "majorVersion",
        ${databaseNow(this.db)} as "nowMs",
        current_setting('fsync') = 'on' and current_setting('full_page_writes') = 'on'
          and current_setting('synchronous_commit') <> 'off' as "isDurable",
        pg_is_in_recovery() or current_setting('transaction_read_only') = 'on'
          or not coalesce(has_table_privilege(to_regclass('quotes'), 'insert'), true) as "isReadOnly",
        current_setting('max_connections')::int
          - current_setting('superuser_reserved_connections')::int as "maxConnections",
        -- pg_stat_activity hides the connections of other users.
        (select coalesce(sum(numbackends), 0) from pg_stat_database)::int as "usedConnections"
    `.execute(this.db);
    const [row] = rows;
    if (row === undefined) {
      throw new Error('the server reports nothing about itself');
    }
    return row;
  }

  /** On SQLite only. */
  async sqlite(): Promise<SqliteFacts> {
    const { rows } = await sql<{ version: string; bytes: number }>`
      select sqlite_version() as version, page_count * page_size as bytes
      from pragma_page_count, pragma_page_size
    `.execute(this.db);
    const [{ version, bytes } = { version: 'unknown', bytes: 0 }] = rows;
    if (bytes > MAX_CHECKED_BYTES) {
      return { version, damage: null };
    }
    const checked = await sql<{ quick_check: string }>`pragma quick_check(1)`.execute(this.db);
    const result = checked.rows[0]?.quick_check ?? 'ok';
    return { version, damage: result === 'ok' ? null : result };
  }

  async #contents(mintUrl: string): Promise<DatabaseContents> {
    const running = await this.db
      .selectFrom('watch_processes')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('alive_until', '>', databaseNow(this.db))
      .executeTakeFirstOrThrow();
    const knownLimits = await new MintStore(this.db).readRateLimits(mintUrl);
    return { processes: running.count, knownLimits };
  }
}
