import pg from 'pg';
import { openEmbedded } from '../../src/store/embedded.ts';
import { connectionSettings } from '../../src/store/server.ts';
import { databaseLocation } from './database-location.ts';

/** As many connections as the service has. */
const MAX_CONNECTIONS = 10;

/**
 * A database without anything around it. What it is asked again is not planned again, and what it answers is read
 * as the service reads it: `pg`'s own way with times is the slower one.
 */
interface FloorDatabase {
  query(statement: string, values: unknown[]): Promise<{ rows: unknown[] }>;
}

/** Opens the {@link databaseLocation}. */
export async function openFloorDatabase(): Promise<FloorDatabase> {
  const location = databaseLocation();
  if (location.kind === 'postgres') {
    const pool = new pg.Pool({
      ...connectionSettings(location.url),
      max: MAX_CONNECTIONS,
    });
    // The server may be gone first when all is ended; a query that needs it fails by itself.
    pool.on('error', () => undefined);
    const names = new Map<string, string>();
    return {
      query: (text, values) => {
        const name = names.get(text) ?? `floor-${names.size}`;
        names.set(text, name);
        return pool.query({ name, text, values });
      },
    };
  }
  const { pglite } = await openEmbedded(location.dataDir, 0);
  return pglite;
}
