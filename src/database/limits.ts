// PostgreSQL

/** Enough for the concurrent queries of one process, and few enough for many processes on one server. */
export const MAX_CONNECTIONS = 10;

/** How long a request waits for a free connection or a starting server before it fails. */
export const CONNECT_TIMEOUT_MS = 5_000;

/** How long queries wait for a server that has been unreachable for {@link CONNECT_TIMEOUT_MS}. */
export const MIN_CONNECT_WAIT_MS = 1_000;

/** `pg.Pool` would not limit the queries that wait. A waiting request holds about 10 KB. */
export const MAX_WAITING_QUERIES = 5_000;

/** Pauses between attempts to connect while the server is unreachable. */
export const RECONNECT_BACKOFF = { initialMs: 100, maxMs: 1_000 };

/** Prepared statements keep their plans. New connections plan the statements again, for tables that have grown. */
export const MAX_LIFETIME_SECONDS = 300;

/** Much longer than any query of the service takes, including its wait for row locks. */
export const STATEMENT_TIMEOUT_MS = 8_000;

/** For operator commands, whose queries may read whole tables. */
export const COMMAND_STATEMENT_TIMEOUT_MS = 30_000;

/**
 * The client's own timeout, for a server that has vanished and does not apply the statement timeout. It also ends the
 * wait for a commit, for example if a synchronous standby has failed. The result of such a commit is unknown.
 */
export const QUERY_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 2_000;

/**
 * The server ends a transaction whose client has vanished, because its row locks block the payments of a recipient.
 * The service never waits for anything but the database within a transaction.
 */
export const IDLE_TRANSACTION_TIMEOUT_MS = 10_000;

/**
 * Short enough to keep firewalls from dropping idle connections, and to notice a vanished server. Node repeats the
 * probe every second and closes the connection after ten.
 */
export const KEEP_ALIVE_DELAY_MS = 10_000;

/** Interval of the queries that show whether the server of the LISTEN connection still responds. */
export const HEARTBEAT_INTERVAL_MS = 2_000;

/**
 * If a query of the LISTEN connection takes longer, the connection is considered broken. A busy server may take some
 * seconds. Payments that other processes record are announced late by up to this time and one heartbeat interval if
 * the server vanishes.
 */
export const HEARTBEAT_TIMEOUT_MS = 5_000;

/** A server that does not respond must not delay the shutdown. */
export const CLOSE_TIMEOUT_MS = 2_000;
export const LISTEN_CLOSE_TIMEOUT_MS = 1_000;

// Both databases

/** More than the service has. Each connection keeps its statements in memory until it closes. */
export const MAX_PREPARED_STATEMENTS = 300;

/** How long `/health/ready` waits for the database. Shorter than the timeouts of load balancers. */
export const READINESS_QUERY_TIMEOUT_MS = 2_000;

/** `/health/ready` queries the database at most once in this time, because any client may request it. */
export const READINESS_CACHE_MS = 1_000;

/** Interval of reported errors: while the database is unavailable, every request fails with the same one. */
export const ERROR_REPORT_INTERVAL_MS = 10_000;

// SQLite

/** How long to wait for a previous service that is still closing its database. */
export const DATA_DIR_LOCK_TIMEOUT_MS = 3_000;

/** How long to wait for another process that closes the database, or recovers it after a crash. */
export const SQLITE_OPEN_TIMEOUT_MS = 5_000;

/** How long the service's queries wait for another process's lock. Short, because payers wait for the queries. */
export const SERVICE_BUSY_TIMEOUT_MS = 3_000;

/** How long the queries of operator commands wait for the lock. Longer, because no client waits for them. */
export const COMMAND_BUSY_TIMEOUT_MS = 30_000;

/**
 * How long reads wait for the lock. Short, because reads block the main thread. They only wait while another process
 * recovers the database after a crash.
 */
export const READ_BUSY_TIMEOUT_MS = 50;

/** The retry interval while another process holds the lock. SQLite's own busy handler waits up to 100 ms. */
export const BUSY_RETRY_MS = 2;

/** A statement that takes longer than any write waits for a lock probably waits for a disk that does not respond. */
export const STUCK_AFTER_MS = 6_000;

/** After a commit that took at least this long, the worker pauses so that other processes can take the lock. */
export const SLOW_COMMIT_MS = 10;

/** The pause after a slow commit, as a fraction of the duration of the commit. */
export const SLOW_COMMIT_PAUSE_FRACTION = 0.05;

/** Checkpoints are rare (every 16 MB of WAL, in pages of 4 KB), because invoices change mostly the same pages. */
export const CHECKPOINT_PAGES = 4_000;

/** After a checkpoint, SQLite truncates a larger WAL file to this size. */
export const MAX_WAL_BYTES = 16 * 1024 * 1024;

export const SQLITE_CACHE_KB = 16_000;

/** How soon the service sees the changes of an operator command. */
export const VERSION_POLL_INTERVAL_MS = 1_000;
