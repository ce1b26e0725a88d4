import pg from 'pg';

/** Connections of one process: enough for the work that overlaps, few enough for many processes. */
const MAX_CONNECTIONS = 10;

/** How long a request waits for a free connection or a starting server before it fails. */
const CONNECT_TIMEOUT_MS = 5_000;

/** A connection keeps plans, which were right for the tables as they were; and so none is kept for ever. */
const MAX_LIFETIME_SECONDS = 300;

/** No query of ours takes this long; one that does must not hold a connection for ever. */
const STATEMENT_TIMEOUT_MS = 30_000;

/** A server that vanished tells nobody: its own timeout cannot, so that ours must. */
const QUERY_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 5_000;

/**
 * An idle connection asks so often whether the other end is there: before a firewall forgets it, and so
 * that a server which vanished is found out while nobody waits for its answer.
 */
const KEEP_ALIVE_AFTER_MS = 30_000;

/** The connections of a pool, as they are used now. */
export interface PoolUse {
  idle: number;
  /** In the hands of a query or transaction. */
  busy: number;
  /** How many wait for one. */
  waiting: number;
  /** As many as there may be. */
  max: number;
}

/** A migration and the wait for its lock use one connection, one after the other. */
const MIGRATION_CONNECTIONS = 1;

const INT8_OID = 20;

/**
 * Creates the pool of connections to a PostgreSQL server.
 *
 * @param onConnectionError told of each connection that broke; the pool replaces it
 * @param isPatient whether a transaction that lifts the server's timeout is waited for, however long a
 *   statement takes; who waits for a server that vanished can tell, and give up
 */
export function createPool(
  url: string,
  onConnectionError: (error: Error) => void,
  isPatient: boolean,
): pg.Pool {
  const settings = {
    max: MAX_CONNECTIONS,
    maxLifetimeSeconds: MAX_LIFETIME_SECONDS,
    // Making one takes as long as ten queries, and who pays now and then would wait for it each time.
    idleTimeoutMillis: MAX_LIFETIME_SECONDS * 1000,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    ...(isPatient ? {} : { query_timeout: QUERY_TIMEOUT_MS }),
  };
  return openPool({ ...connectionSettings(url), ...settings }, onConnectionError);
}

/** Creates the pool for migrations, whose statements may take hours on large tables. */
export function createMigrationPool(
  url: string,
  onConnectionError: (error: Error) => void,
): pg.Pool {
  const settings = {
    max: MIGRATION_CONNECTIONS,
    // The role or the database may have timeouts of its own. If this fails, the pool ends the connection.
    onConnect: async (client: pg.ClientBase) => {
      await client.query('set statement_timeout = 0; set lock_timeout = 0');
    },
  };
  return openPool({ ...connectionSettings(url), ...settings }, onConnectionError);
}

function openPool(config: pg.PoolConfig, onConnectionError: (error: Error) => void): pg.Pool {
  const pool = new pg.Pool(config);
  // A pool hears of its idle connections alone. One that breaks between two statements of a
  // transaction would end the process, as any 'error' event without a listener does.
  pool.on('connect', (client) => client.on('error', onConnectionError));
  pool.on('error', () => undefined);
  return pool;
}

/** How the connections of a pool are used now. */
export function poolUse({ totalCount, idleCount, waitingCount, options }: pg.Pool): PoolUse {
  return {
    idle: idleCount,
    busy: totalCount - idleCount,
    waiting: waitingCount,
    max: options.max,
  };
}

/** What every connection of ours has in common. */
export function connectionSettings(url: string): pg.ClientConfig {
  return {
    connectionString: url,
    application_name: 'nutpost',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS,
    types: { getTypeParser },
  };
}

/** Counters, amounts and times are below 2^53, so they are numbers, as SQLite returns them. */
function getTypeParser(oid: number, format?: 'text' | 'binary') {
  return oid === INT8_OID ? Number : pg.types.getTypeParser(oid, format);
}
