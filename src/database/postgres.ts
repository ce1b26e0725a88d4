import pg from 'pg';
import '../connect-attempt-timeout.ts';
import { OperatorError } from '../errors.ts';
import { CONNECT_TIMEOUT_MS, CONNECTION_LIFETIME_SECONDS, STATEMENT_TIMEOUT_MS } from './limits.ts';

/** Only the service needs a writable server. Only commands may read whole tables, or pause in a transaction. */
export type ConnectionPurpose = 'service' | 'command' | 'doctor';

type OnError = (error: Error) => void;

export function createPool(url: string, onError: OnError, purpose: ConnectionPurpose): pg.Pool {
  return createPgPool(url, onError, {
    // Few enough for many processes on one server.
    max: 10,
    maxLifetimeSeconds: CONNECTION_LIFETIME_SECONDS,
    // Idle connections stay open as long, because opening a connection takes as long as ten queries.
    idleTimeoutMillis: CONNECTION_LIFETIME_SECONDS * 1000,
    // Later than the server's timeout, for a server that has vanished or waits for a standby. A commit may succeed.
    ...(purpose !== 'command' && { query_timeout: STATEMENT_TIMEOUT_MS + 2_000 }),
  });
}

/** Creates the pool for migrations, whose statements may take hours on large tables. */
export function createMigrationPool(url: string, onError: OnError): pg.Pool {
  const settings = {
    // Kysely migrates on the connection that holds its lock.
    max: 1,
    onConnect: (client: pg.ClientBase) =>
      setSession(client, { statement_timeout: 0, idle_in_transaction_session_timeout: 0 }),
  };
  return createPgPool(url, onError, settings);
}

function createPgPool(url: string, onError: OnError, settings: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool({ ...createClientConfig(url), ...settings });
  // The pool itself handles only the errors of idle connections. An unhandled 'error' event ends the process.
  pool.on('connect', (client) => client.on('error', onError));
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

/** Parses bigint columns as numbers, like SQLite. That is exact, because all values are below 2^53. */
function getTypeParser(oid: number, format?: 'text' | 'binary') {
  return oid === pg.types.builtins.INT8 ? Number : pg.types.getTypeParser(oid, format);
}

/**
 * Changes the settings of a new connection. Behind a pooler that shares connections, this would change the settings of
 * other clients; there the role must have the right ones ({@link assertRequiredSettings}).
 */
export function prepareConnection(client: pg.ClientBase, purpose: ConnectionPurpose) {
  const isCommand = purpose === 'command';
  return setSession(client, {
    statement_timeout: isCommand ? 30_000 : STATEMENT_TIMEOUT_MS,
    // Ends the transaction of a process that has vanished, because its row locks block payments.
    idle_in_transaction_session_timeout: isCommand ? 0 : 10_000,
  });
}

/** The queries rely on these defaults of PostgreSQL, which the server, the database or the role may override. */
const REQUIRED_SETTINGS = {
  // At a stricter level, concurrent transactions fail instead of waiting for each other.
  default_transaction_isolation: 'read committed',
  // No timeout, because that of statements includes the wait for locks.
  lock_timeout: '0',
};

/** Sends a query, because PgBouncer rejects these settings in a startup message. Timeouts in ms; 0: none. */
async function setSession(
  client: pg.ClientBase,
  timeouts: { statement_timeout: number; idle_in_transaction_session_timeout: number },
): Promise<void> {
  const settings = Object.entries({ ...REQUIRED_SETTINGS, ...timeouts, idle_session_timeout: 0 });
  const statements = settings.map(([name, value]) => `set ${name} = '${value}'`);
  await queryInTime(client, statements.join('; '));
}

export async function assertUtf8(client: pg.ClientBase): Promise<void> {
  const encoding = await readSetting(client, 'server_encoding');
  if (encoding !== 'UTF8') {
    throw new OperatorError(
      `DATABASE_URL: the encoding of the database is ${encoding}. Create it with "encoding 'UTF8' template template0".`,
    );
  }
}

/** Checks the settings of a session that this process must not change. @throws OperatorError if one is wrong */
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

/** Runs a short query with a timeout, because the server may have vanished. */
function queryInTime(client: pg.ClientBase, text: string): Promise<pg.QueryResult> {
  // The types of pg lack `query_timeout` for a single query.
  const query = { text, query_timeout: CONNECT_TIMEOUT_MS };
  return client.query(query);
}
