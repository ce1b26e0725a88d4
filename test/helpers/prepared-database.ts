import { type DatabaseLocation, openDatabase } from '../../src/database/database.ts';
import { createDataDir, createTestDatabase, isPostgres } from './database.ts';
import { assignUsername } from './names.ts';
import { TEST_JWT_SECRET, TEST_TREASURY_SECRET } from './test-environment.ts';
import { TestWallet } from './test-wallet.ts';

/** A database for separate service and command processes, with a recipient who has a name. */
export interface PreparedDatabase {
  /** Environment that selects the database. */
  env: Record<string, string>;
  location: DatabaseLocation;
  alice: TestWallet;
  remove(): Promise<void>;
}

/** Creates the database on the server or in a `DATA_DIR`. */
export async function createPreparedDatabase(): Promise<PreparedDatabase> {
  const created = await (isPostgres ? createPostgres() : createSqlite());
  const alice = new TestWallet('http://localhost');
  const database = await openDatabase(created.location, () => undefined);
  await assignUsername(database, alice.pubkey, 'alice');
  await database.close();
  return { ...created, alice };
}

async function createPostgres(): Promise<Omit<PreparedDatabase, 'alice'>> {
  const { location, drop } = await createTestDatabase();
  const url = location.kind === 'postgres' ? location.url : '';
  const secrets = { JWT_SECRET: TEST_JWT_SECRET, TREASURY_SECRET: TEST_TREASURY_SECRET };
  return { env: { DATABASE_URL: url, ...secrets }, location, remove: drop };
}

async function createSqlite(): Promise<Omit<PreparedDatabase, 'alice'>> {
  const { dataDir, remove } = await createDataDir();
  return { env: { DATA_DIR: dataDir }, location: { kind: 'sqlite', dataDir }, remove };
}
