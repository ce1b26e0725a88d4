/** How long to wait for a free connection to PostgreSQL, or for a starting server. */
export const CONNECT_TIMEOUT_MS = 5_000;

/** Pauses between attempts to connect to PostgreSQL. */
export const RECONNECT_BACKOFF = { initialMs: 100, maxMs: 1_000 };

/** Connections to PostgreSQL are replaced, so that prepared statements are planned again for tables that have grown. */
export const CONNECTION_LIFETIME_SECONDS = 300;

/** Much longer than any query of the service, including its wait for row locks. */
export const STATEMENT_TIMEOUT_MS = 8_000;

/** Per connection, which keeps their plans in memory. The service uses fewer different statements. */
export const MAX_PREPARED_STATEMENTS = 300;

/** How long a write of the service waits for the lock of another process. Short, because payers wait too. */
export const SERVICE_BUSY_TIMEOUT_MS = 3_000;

/** After a checkpoint, SQLite truncates a larger WAL file to this size. */
export const MAX_WAL_BYTES = 16 * 1024 * 1024;
