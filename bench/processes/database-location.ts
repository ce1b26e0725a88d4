import type { DatabaseLocation } from '../../src/store/database.ts';

/** What the environment names, as for the service: `DATABASE_URL`, else `DATA_DIR`. */
export function databaseLocation(): Exclude<DatabaseLocation, { kind: 'memory' }> {
  const url = process.env['DATABASE_URL'];
  return url === undefined
    ? { kind: 'embedded', dataDir: process.env['DATA_DIR'] ?? './data' }
    : { kind: 'postgres', url };
}
