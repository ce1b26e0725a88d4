import pg from 'pg';
import { openEmbedded } from '../../src/store/embedded.ts';

/** As many connections as the service has. */
const MAX_CONNECTIONS = 10;

/** A database without anything around it. */
interface FloorDatabase {
  query(statement: string, values: unknown[]): Promise<{ rows: unknown[] }>;
}

/** Opens what the environment names, as for the service: `DATABASE_URL`, else `DATA_DIR`. */
export async function openFloorDatabase(): Promise<FloorDatabase> {
  const url = process.env['DATABASE_URL'];
  if (url !== undefined) {
    const pool = new pg.Pool({ connectionString: url, max: MAX_CONNECTIONS });
    // The server may be gone first when all is ended; a query that needs it fails by itself.
    pool.on('error', () => undefined);
    return pool;
  }
  const { pglite } = await openEmbedded(process.env['DATA_DIR'] ?? './data', 0);
  return pglite;
}
