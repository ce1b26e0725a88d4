import pg from 'pg';
import '../connect-attempt-timeout.ts';
import { OperatorError } from '../errors.ts';
import { CONNECT_TIMEOUT_MS, MAX_LIFETIME_SECONDS, STATEMENT_TIMEOUT_MS } from './limits.ts';

/** Queries of commands may read whole tables, and may pause. Commands and the doctor also work on a read-only server. */
export type DatabaseUser = 'service' | 'command' | 'doctor';

type OnError = (error: Error) => void;

export function createPool(url: string, onConnectionError: OnError, user: DatabaseUser): pg.Pool {
  return createPgPool(url, onConnectionError, {
    // Few enough for many processes on one server.
    max: 10,
    maxLifetimeSeconds: MAX_LIFETIME_SECONDS,
    // Idle connections stay open, because opening a connection takes as long as ten queries.
    idleTimeoutMillis: MAX_LIFETIME_SECONDS * 1000,
    // For a server that has vanished or waits for a standby. Whether a commit succeeded is then unknown.
    ...(user !== 'command' && { query_timeout: STATEMENT_TIMEOUT_MS + 2_000 }),
  });
}

/** Creates the pool for migrations, whose statements may take hours on large tables. */
export function createMigrationPool(url: string, onConnectionError: OnError): pg.Pool {
  const settings = {
    // Kysely first waits for its lock and then migrates.
    max: 1,
    onConnect: (client: pg.ClientBase) => setSessionSettings(client, 0, 0),
  };
  return createPgPool(url, onConnectionError, settings);
}

function createPgPool(url: string, onConnectionError: OnError, settings: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool({ ...createClientConfig(url), ...settings });
  // The pool itself handles only the errors of idle connections. An unhandled 'error' event ends the process.
  pool.on('connect', (client) => client.on('error', onConnectionError));
  pool.on('error', () => undefined);
  return pool;
}

export function createClientConfig(url: string): pg.ClientConfig {
  return {
    connectionString: url,
    application_name: 'nutpost',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    // Keeps firewalls from dropping idle connections. Node repeats the probe each second and gives up after ten.
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    types: { getTypeParser },
  };
}

/** Parses bigint columns as numbers, as SQLite does. All counters, amounts and times are below 2^53. */
function getTypeParser(oid: number, format?: 'text' | 'binary') {
  return oid === pg.types.builtins.INT8 ? Number : pg.types.getTypeParser(oid, format);
}

/**
 * Sets the settings of a new connection of the pool. Behind a pooler that shares connections between transactions, other
 * clients would get them, so the role must have them there ({@link assertRequiredSettings}).
 */
export function prepareConnection(client: pg.ClientBase, user: DatabaseUser): Promise<void> {
  // The row locks of a client that has vanished would block the payments of a recipient for ever.
  return user === 'command'
    ? setSessionSettings(client, 30_000, 0)
    : setSessionSettings(client, STATEMENT_TIMEOUT_MS, 10_000);
}

/** The defaults of PostgreSQL on which the queries rely. The server, the database or the role may have others. */
const REQUIRED_SETTINGS = {
  // In a stricter level, concurrent transactions fail instead of waiting for each other.
  default_transaction_isolation: 'read committed',
  // The statement timeout limits the wait for locks.
  lock_timeout: '0',
};

/** Not in the pool's configuration, because PgBouncer rejects unknown start parameters. A timeout of 0 means none. */
async function setSessionSettings(
  client: pg.ClientBase,
  statementTimeoutMs: number,
  idleTransactionTimeoutMs: number,
): Promise<void> {
  const settings = {
    ...REQUIRED_SETTINGS,
    statement_timeout: `${statementTimeoutMs}`,
    idle_in_transaction_session_timeout: `${idleTransactionTimeoutMs}`,
    idle_session_timeout: '0',
  };
  await queryInTime(
    client,
    Object.entries(settings)
      .map(([name, value]) => `set ${name} = ${pg.escapeLiteral(value)}`)
      .join('; '),
  );
}

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

/** Throws if the server is a standby, is read-only for another reason, or does not respond in time. */
export async function assertWritable(client: pg.ClientBase): Promise<void> {
  if ((await readSetting(client, 'transaction_read_only')) !== 'off') {
    throw new Error('the server is read-only');
  }
}

async function readSetting(client: pg.ClientBase, name: string): Promise<string | undefined> {
  const text = `select current_setting(${pg.escapeLiteral(name)}) as value`;
  return (await queryInTime(client, text)).rows[0]?.value;
}

/** Runs a query on a connection that is not used yet, whose server may have vanished. */
function queryInTime(client: pg.ClientBase, text: string): Promise<pg.QueryResult> {
  // The types of pg lack `query_timeout` for a single query.
  const query = { text, query_timeout: CONNECT_TIMEOUT_MS };
  return client.query(query);
}
