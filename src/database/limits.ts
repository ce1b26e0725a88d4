// PostgreSQL

/** Connections per process. Few enough for many processes on one server. */
export const MAX_CONNECTIONS = 10;

/** The wait for a free connection or a starting server. */
export const CONNECT_TIMEOUT_MS = 5_000;

/** The wait for a server that has been unreachable for {@link CONNECT_TIMEOUT_MS}. */
export const MIN_CONNECT_WAIT_MS = 1_000;

/** `pg.Pool` would not limit the queries that wait. A waiting request holds about 10 KB. */
export const MAX_WAITING_QUERIES = 5_000;

/** Pauses between attempts to connect. */
export const RECONNECT_BACKOFF = { initialMs: 100, maxMs: 1_000 };

/** New connections plan their statements again, for tables that have grown. */
export const MAX_LIFETIME_SECONDS = 300;

/** Much longer than any query of the service, including its wait for row locks. */
export const STATEMENT_TIMEOUT_MS = 8_000;

/** Operator commands may read whole tables. */
export const COMMAND_STATEMENT_TIMEOUT_MS = 30_000;

/** The client's own timeout, for a server that has vanished or waits for a standby. The result of a commit is unknown. */
export const QUERY_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 2_000;

/** The row locks of a client that has vanished would block the payments of a recipient. */
export const IDLE_TRANSACTION_TIMEOUT_MS = 10_000;

/** Queries that show whether the server of the LISTEN connection still responds. */
export const HEARTBEAT_INTERVAL_MS = 2_000;

/** A busy server may take seconds. If it vanishes, updates from other processes are late by up to both times. */
export const HEARTBEAT_TIMEOUT_MS = 5_000;

/** A server that does not respond must not delay the shutdown. */
export const CLOSE_TIMEOUT_MS = 2_000;
export const LISTEN_CLOSE_TIMEOUT_MS = 1_000;

// Both databases

/** More than the service has. Each connection keeps its statements in memory. */
export const MAX_PREPARED_STATEMENTS = 300;

/** Shorter than the timeouts of load balancers. */
export const READINESS_QUERY_TIMEOUT_MS = 2_000;

/** Any client may request `/health/ready`. */
export const READINESS_CACHE_MS = 1_000;

// SQLite

/** The wait for a previous service that is still closing its database. */
export const DATA_DIR_LOCK_TIMEOUT_MS = 3_000;

/** The wait for a process that closes the database, or recovers it after a crash. */
export const SQLITE_OPEN_TIMEOUT_MS = 5_000;

/** The wait of the service's writes for the lock of another process. Short, because payers wait too. */
export const SERVICE_BUSY_TIMEOUT_MS = 3_000;

/** No client waits for operator commands. */
export const COMMAND_BUSY_TIMEOUT_MS = 30_000;

/** Reads block the main thread. They wait only while another process recovers the database after a crash. */
export const READ_BUSY_TIMEOUT_MS = 50;

/** The retry interval while another process holds the lock. SQLite's own busy handler waits up to 100 ms. */
export const BUSY_RETRY_MS = 2;

/** Longer than any write waits for a lock, so the disk probably does not respond. */
export const STUCK_AFTER_MS = 6_000;

/** After a slow commit, the worker pauses for a fraction of its duration, so that other processes can take the lock. */
export const SLOW_COMMIT_MS = 10;
export const SLOW_COMMIT_PAUSE_FRACTION = 0.05;

/** Pages of 4 KB. Checkpoints are rare, because invoices change mostly the same pages. */
export const CHECKPOINT_PAGES = 4_000;

/** SQLite truncates a larger WAL file to this size after a checkpoint. */
export const MAX_WAL_BYTES = 16 * 1024 * 1024;

/** How soon the service sees the changes of an operator command. */
export const VERSION_POLL_INTERVAL_MS = 1_000;
