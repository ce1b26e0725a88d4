import { type Kysely, sql } from 'kysely';
import { migrations } from '../../migrations/index.ts';
import { anyOf } from './any-of.ts';
import type { Schema } from './schema.ts';
import { TreasuryStore } from './treasury-store.ts';

/** Every table of ours; as an object, so that the compiler knows when one is missing. */
const OWN_TABLES: Readonly<Record<keyof Schema, true>> = {
  users: true,
  quotes: true,
  quote_events: true,
  mints: true,
  mint_leases: true,
  watch_processes: true,
  usernames: true,
  username_purchases: true,
  username_purchase_proofs: true,
  treasury_key: true,
  treasury_proofs: true,
  treasury_withdrawals: true,
  recipient_blocks: true,
  zap_receipts: true,
  zap_receipt_deliveries: true,
  relays: true,
  npubcash_users: true,
};

/** What a service does with them. */
const OWN_RIGHTS = ['select', 'insert', 'update', 'delete'];

/** Kysely's own, which every start reads. */
const MIGRATION_TABLES = ['kysely_migration', 'kysely_migration_lock'];

/** How a database is, and what is in it that a service's settings have to fit. */
export interface DatabaseFacts {
  /** As the server writes it, such as `17.6`. */
  version: string;
  /** PostgreSQL's `server_version_num`, such as 170006. */
  versionNumber: number;
  /** By the database's clock, in milliseconds since 1970. */
  nowMs: number;
  encoding: string;
  /** Whether a commit that was answered survives a crash: `fsync`, `synchronous_commit`, `full_page_writes`. */
  isDurable: boolean;
  /** A standby, or a database that is set to be read only. */
  isReadOnly: boolean;
  canCreateTables: boolean;
  maxConnections: number;
  /** Of all users. */
  usedConnections: number;
  /** What this user may not do and a service does, such as `insert: quotes`; tables that are not there pass. */
  missingRights: readonly string[];
  /** Names of migrations: ours that were not applied, and applied ones that this version does not know. */
  missingMigrations: readonly string[];
  unknownMigrations: readonly string[];
  /** Null where the tables are not those of this version, or rights are missing. */
  contents: DatabaseContents | null;
}

/** What is in the tables. */
export interface DatabaseContents {
  /** Services that said within seconds that they are alive. */
  processes: number;
  /** Whose key the newest zap receipt is signed with, in hex; null: there is no receipt. */
  receiptKey: string | null;
  /** Receipts that some relay is still to get. */
  openReceipts: number;
  /** Whether there is ecash, or a purchase under way, that the treasury secret has to open. */
  hasSealed: boolean;
  /** Names the secret that sealed; null: none has yet. */
  treasuryKeyId: string | null;
  /** The known rate limits of the mint that was asked for. */
  rateLimits: unknown;
  /** Of the relays that were asked for, those that something was sent to. */
  relays: readonly { url: string; failures: number; lastWord: string | null }[];
}

/** What to look for in the tables. */
export interface ExaminedSubjects {
  mintUrl: string;
  relays: readonly string[];
}

/** Looks at a database as it is, whatever state it is in; changes nothing. */
export class ExaminationStore {
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
  }

  async examine(subjects: ExaminedSubjects): Promise<DatabaseFacts> {
    const server = await this.#server();
    const missingRights = await this.#missingRights();
    if (missingRights.length > 0) {
      return {
        ...server,
        missingRights,
        missingMigrations: [],
        unknownMigrations: [],
        contents: null,
      };
    }
    const applied = await this.#appliedMigrations();
    const known = Object.keys(migrations);
    const missingMigrations = known.filter((name) => !applied.includes(name));
    const unknownMigrations = applied.filter((name) => !known.includes(name));
    const isOurs = missingMigrations.length === 0 && unknownMigrations.length === 0;
    const contents = isOurs ? await this.#contents(subjects) : null;
    return { ...server, missingRights, missingMigrations, unknownMigrations, contents };
  }

  async #server() {
    const { rows } = await sql<
      Omit<DatabaseFacts, 'missingRights' | 'missingMigrations' | 'unknownMigrations' | 'contents'>
    >`
      select
        current_setting('server_version') as "version",
        current_setting('server_version_num')::int as "versionNumber",
        (extract(epoch from clock_timestamp()) * 1000)::float8 as "nowMs",
        current_setting('server_encoding') as "encoding",
        current_setting('fsync') = 'on' and current_setting('full_page_writes') = 'on'
          and current_setting('synchronous_commit') <> 'off' as "isDurable",
        pg_is_in_recovery() or current_setting('transaction_read_only') = 'on' as "isReadOnly",
        coalesce(has_schema_privilege(current_schema(), 'create'), false) as "canCreateTables",
        current_setting('max_connections')::int
          - current_setting('superuser_reserved_connections')::int as "maxConnections",
        -- pg_stat_activity shows others' connections to few.
        (select coalesce(sum(numbackends), 0) from pg_stat_database)::int as "usedConnections"
    `.execute(this.#db);
    const [row] = rows;
    if (row === undefined) {
      throw new Error('the database says nothing of itself');
    }
    return row;
  }

  async #missingRights(): Promise<string[]> {
    const needed = [
      ...OWN_RIGHTS.flatMap((right) => Object.keys(OWN_TABLES).map((table) => ({ right, table }))),
      ...MIGRATION_TABLES.map((table) => ({ right: 'select', table })),
    ];
    const { rows } = await sql<{ right: string; table: string }>`
      select "right", "table"
      from json_to_recordset(${JSON.stringify(needed)}::json) as needed ("right" text, "table" text)
      where not has_table_privilege(to_regclass("table"), "right")
    `.execute(this.#db);
    return rows.map(({ right, table }) => `${right}: ${table}`);
  }

  /** Kysely's own table, which is not there before the first start. */
  async #appliedMigrations(): Promise<string[]> {
    const { rows } = await sql<{ isThere: boolean }>`
      select to_regclass('kysely_migration') is not null as "isThere"
    `.execute(this.#db);
    if (rows[0]?.isThere !== true) {
      return [];
    }
    const applied = await sql<{ name: string }>`
      select name from kysely_migration order by name
    `.execute(this.#db);
    return applied.rows.map(({ name }) => name);
  }

  async #contents({ mintUrl, relays }: ExaminedSubjects): Promise<DatabaseContents> {
    const { rows } = await sql<Omit<DatabaseContents, 'relays' | 'hasSealed'>>`
      select
        (select count(*) from watch_processes where alive_until > clock_timestamp())::int
          as "processes",
        (select event::json ->> 'pubkey' from zap_receipts order by created_at desc limit 1)
          as "receiptKey",
        (
          select count(distinct receipt) from zap_receipt_deliveries where next_try_at is not null
        )::int as "openReceipts",
        (select key_id from treasury_key limit 1) as "treasuryKeyId",
        (select rate_limits from mints where url = ${mintUrl}) as "rateLimits"
    `.execute(this.#db);
    const [row] = rows;
    if (row === undefined) {
      throw new Error('the tables say nothing');
    }
    return {
      ...row,
      hasSealed: await new TreasuryStore(this.#db).hasSealed(),
      relays: await this.#relays(relays),
    };
  }

  async #relays(urls: readonly string[]): Promise<DatabaseContents['relays']> {
    const { rows } = await sql<{ url: string; failures: number; lastWord: string | null }>`
      select url, failures, last_word as "lastWord" from relays
      where url in ${anyOf(urls)}
      order by url
    `.execute(this.#db);
    return rows;
  }
}
