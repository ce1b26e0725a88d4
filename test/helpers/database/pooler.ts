import pg from 'pg';

/** Returns the URL of the pooler in front of the tests' PostgreSQL server. @throws if the suite has no pooler */
export function requirePoolerUrl(): string {
  const url = process.env['TEST_POOLER_URL'];
  if (url === undefined) {
    throw new Error('these tests need a pooler: run `npm run test:failover -- pgbouncer`');
  }
  return url;
}

interface PoolerServerConnection {
  database: string;
  /** The port of PgBouncer's side of the connection. */
  local_port: number;
}

export async function listServerConnections(poolerUrl: string): Promise<PoolerServerConnection[]> {
  const console = new pg.Client({ connectionString: new URL('/pgbouncer', poolerUrl).href });
  await console.connect();
  try {
    return (await console.query('show servers')).rows;
  } finally {
    await console.end();
  }
}
