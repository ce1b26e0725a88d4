import pg from 'pg';

/** Enough for the concurrent queries of one process, and few enough for many processes on one server. */
const MAX_CONNECTIONS = 10;

/** How long a request waits for a free connection or a starting server before it fails. */
export const CONNECT_TIMEOUT_MS = 5_000;

/** While the server is unreachable, the time between two attempts doubles from the first to the second value. */
const MIN_RETRY_DELAY_MS = 100;
const MAX_RETRY_DELAY_MS = 1_000;

/** Prepared statements keep their plans. New connections plan the statements again, for tables that have grown. */
const MAX_LIFETIME_SECONDS = 300;

/** Much longer than any query of the service takes, including its wait for row locks. */
const STATEMENT_TIMEOUT_MS = 8_000;

/** For operator commands, whose queries may read whole tables. */
const COMMAND_STATEMENT_TIMEOUT_MS = 30_000;

/**
 * The client's own timeout, for a server that has vanished and does not apply the statement timeout. It also ends the
 * wait for a commit, for example if a synchronous standby has failed. The result of such a commit is unknown.
 */
const QUERY_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 2_000;

/**
 * The server ends a transaction whose client has vanished, because its row locks block the payments of a recipient.
 * The service never waits for anything but the database within a transaction.
 */
const IDLE_TRANSACTION_TIMEOUT_MS = 10_000;

/**
 * Short enough to keep firewalls from dropping idle connections, and to notice a vanished server. Node repeats the
 * probe every second and closes the connection after ten.
 */
const KEEP_ALIVE_DELAY_MS = 10_000;

const INT8_OID = 20;

/** The current numbers of connections. */
export interface PoolStats {
  idle: number;
  /** In use by a query or transaction. */
  busy: number;
  /** Queries and transactions that wait for a connection. */
  waiting: number;
  max: number;
}

export interface PoolOptions {
  /** For operator commands: a transaction may raise the server's statement timeout, and may pause. */
  allowLongQueries: boolean;
  /** Whether to use a read-only server. */
  allowReadOnly: boolean;
}

/**
 * Creates the pool of connections to a PostgreSQL server.
 *
 * @param onConnectionError receives the error of each broken connection; the pool replaces the connection
 */
export function createPool(
  url: string,
  onConnectionError: (error: Error) => void,
  { allowLongQueries }: Pick<PoolOptions, 'allowLongQueries'>,
): pg.Pool {
  const timeouts = allowLongQueries
    ? { statement_timeout: COMMAND_STATEMENT_TIMEOUT_MS }
    : {
        statement_timeout: STATEMENT_TIMEOUT_MS,
        query_timeout: QUERY_TIMEOUT_MS,
        idle_in_transaction_session_timeout: IDLE_TRANSACTION_TIMEOUT_MS,
      };
  const settings = {
    max: MAX_CONNECTIONS,
    maxLifetimeSeconds: MAX_LIFETIME_SECONDS,
    // Idle connections stay open, because opening a connection takes as long as ten queries.
    idleTimeoutMillis: MAX_LIFETIME_SECONDS * 1000,
    ...timeouts,
  };
  return createPgPool({ ...createClientConfig(url), ...settings }, onConnectionError);
}

/** Creates the pool for migrations, whose statements may take hours on large tables. */
export function createMigrationPool(
  url: string,
  onConnectionError: (error: Error) => void,
): pg.Pool {
  const settings = {
    // One is enough, because Kysely first waits for its lock and then migrates.
    max: 1,
    // Overrides the timeouts that the role or the database may have. If this fails, the pool closes the connection.
    onConnect: async (client: pg.ClientBase) => {
      await client.query('set statement_timeout = 0; set lock_timeout = 0');
    },
  };
  return createPgPool({ ...createClientConfig(url), ...settings }, onConnectionError);
}

function createPgPool(config: pg.PoolConfig, onConnectionError: (error: Error) => void): pg.Pool {
  const pool = new pg.Pool(config);
  // The pool itself handles only the errors of idle connections. An unhandled 'error' event ends the process.
  pool.on('connect', (client) => client.on('error', onConnectionError));
  pool.on('error', () => undefined);
  return pool;
}

export function readPoolStats(pool: pg.Pool): PoolStats {
  return {
    idle: pool.idleCount,
    busy: pool.totalCount - pool.idleCount,
    waiting: pool.waitingCount,
    max: pool.options.max,
  };
}

/** Throws if the server is a standby, is read-only for another reason, or does not respond in time. */
export async function assertWritable(client: pg.ClientBase): Promise<void> {
  // The types of pg lack `query_timeout` for a single query.
  const query = { text: 'show transaction_read_only', query_timeout: CONNECT_TIMEOUT_MS };
  const { rows } = await client.query<{ transaction_read_only: string }>(query);
  if (rows[0]?.transaction_read_only !== 'off') {
    throw new Error('the server is read-only');
  }
}

/** Returns how long to wait after a failed attempt to connect. Random, so that processes do not connect together. */
export function computeRetryDelayMs(attempt: number): number {
  const maxDelayMs = Math.min(MIN_RETRY_DELAY_MS * 2 ** attempt, MAX_RETRY_DELAY_MS);
  return (maxDelayMs * (1 + Math.random())) / 2;
}

/** Returns the settings that all connections share. */
export function createClientConfig(url: string): pg.ClientConfig {
  return {
    connectionString: url,
    application_name: 'nutpost',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_DELAY_MS,
    types: { getTypeParser },
  };
}

/** Parses bigint columns as numbers, as SQLite does. All counters, amounts and times are below 2^53. */
function getTypeParser(oid: number, format?: 'text' | 'binary') {
  return oid === INT8_OID ? Number : pg.types.getTypeParser(oid, format);
}
