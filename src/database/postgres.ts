import pg from 'pg';
import '../address-timeout.ts';
import { OperatorError } from '../errors.ts';
import {
  COMMAND_STATEMENT_TIMEOUT_MS,
  CONNECT_TIMEOUT_MS,
  IDLE_TRANSACTION_TIMEOUT_MS,
  KEEP_ALIVE_DELAY_MS,
  MAX_CONNECTIONS,
  MAX_LIFETIME_SECONDS,
  QUERY_TIMEOUT_MS,
  STATEMENT_TIMEOUT_MS,
} from './limits.ts';

const INT8_OID = 20;

export interface PoolStats {
  idle: number;
  busy: number;
  waiting: number;
  max: number;
}

export interface PoolOptions {
  /** For operator commands: a transaction may raise the server's statement timeout, and may pause. */
  allowLongQueries: boolean;
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
  const settings = {
    max: MAX_CONNECTIONS,
    maxLifetimeSeconds: MAX_LIFETIME_SECONDS,
    // Idle connections stay open, because opening a connection takes as long as ten queries.
    idleTimeoutMillis: MAX_LIFETIME_SECONDS * 1000,
    ...(!allowLongQueries && { query_timeout: QUERY_TIMEOUT_MS }),
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
    // If this fails, the pool closes the connection.
    onConnect: (client: pg.ClientBase) => setSessionSettings(client, {}),
  };
  return createPgPool({ ...createClientConfig(url), ...settings }, onConnectionError);
}

/** The defaults of PostgreSQL on which the queries rely. The server, the database or the role may have others. */
const REQUIRED_SETTINGS = {
  // In a stricter level, concurrent transactions fail instead of waiting for each other.
  default_transaction_isolation: 'read committed',
  // The statement timeout limits the wait for locks.
  lock_timeout: '0',
};

/**
 * Sets all settings of a session on which the service relies, whatever the defaults of the server, the database and the
 * role are. Not in the pool's configuration, because PgBouncer rejects connections with unknown start parameters.
 *
 * @param timeouts none: statements may take hours
 */
async function setSessionSettings(
  client: pg.ClientBase,
  timeouts: { statementMs?: number; idleTransactionMs?: number },
): Promise<void> {
  const settings = {
    ...REQUIRED_SETTINGS,
    statement_timeout: `${timeouts.statementMs ?? 0}`,
    idle_in_transaction_session_timeout: `${timeouts.idleTransactionMs ?? 0}`,
    idle_session_timeout: '0',
  };
  await queryInTime(
    client,
    Object.entries(settings)
      .map(([name, value]) => `set ${name} = ${pg.escapeLiteral(value)}`)
      .join('; '),
  );
}

/**
 * Sets the settings of a new connection of the pool. Behind a pooler that shares connections between transactions, other
 * clients would get them, so the role must have them there ({@link assertRequiredSettings}).
 */
export function prepareConnection(
  client: pg.ClientBase,
  { allowLongQueries }: Pick<PoolOptions, 'allowLongQueries'>,
): Promise<void> {
  return setSessionSettings(
    client,
    allowLongQueries
      ? { statementMs: COMMAND_STATEMENT_TIMEOUT_MS }
      : { statementMs: STATEMENT_TIMEOUT_MS, idleTransactionMs: IDLE_TRANSACTION_TIMEOUT_MS },
  );
}

/** @throws OperatorError if the database cannot store all text */
export async function assertUtf8(client: pg.ClientBase): Promise<void> {
  const encoding = await readSetting(client, 'server_encoding');
  if (encoding !== 'UTF8') {
    throw new OperatorError(
      `DATABASE_URL: the encoding of the database is ${encoding}. Create it with "encoding 'UTF8' template template0".`,
    );
  }
}

/** @throws OperatorError if a session, which this process must not change, lacks a setting that the queries rely on */
export async function assertRequiredSettings(client: pg.ClientBase): Promise<void> {
  for (const [name, required] of Object.entries(REQUIRED_SETTINGS)) {
    const value = await readSetting(client, name);
    if (value !== required) {
      throw new OperatorError(
        `DATABASE_URL: ${name} is '${value}'. Set it for the role: alter role ... set ${name} = '${required}'.`,
      );
    }
  }
}

async function readSetting(client: pg.ClientBase, name: string): Promise<string | undefined> {
  const [row] = await queryInTime<{ value: string }>(
    client,
    `select current_setting(${pg.escapeLiteral(name)}) as value`,
  );
  return row?.value;
}

/** Runs a query on a connection that is not used yet, whose server may have vanished. */
async function queryInTime<Row extends pg.QueryResultRow>(
  client: pg.ClientBase,
  text: string,
): Promise<Row[]> {
  // The types of pg lack `query_timeout` for a single query.
  const query = { text, query_timeout: CONNECT_TIMEOUT_MS };
  return (await client.query<Row>(query)).rows;
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
  if ((await readSetting(client, 'transaction_read_only')) !== 'off') {
    throw new Error('the server is read-only');
  }
}

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
