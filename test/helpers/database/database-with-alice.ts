import { type DatabaseLocation, openDatabase } from '../../../src/database/database.ts';
import { assignUsername } from '../recipients/assign-username.ts';
import { RecipientClient } from '../recipients/recipient-client.ts';
import { TEST_JWT_SECRET, TEST_TREASURY_SECRET } from '../service/test-environment.ts';
import { createDataDir, createTestDatabase, isPostgres, toDatabaseEnv } from './test-database.ts';

/** A closed database, which a test opens in child processes. The recipient Alice has the username `alice`. */
export interface DatabaseWithAlice {
  env: Record<string, string>;
  location: DatabaseLocation;
  alice: RecipientClient;
  remove(): Promise<void>;
}

export async function createDatabaseWithAlice(): Promise<DatabaseWithAlice> {
  const emptyDatabase = await (isPostgres ? createPostgres() : createSqlite());
  const alice = new RecipientClient('http://localhost');
  const database = await openDatabase(emptyDatabase.location, () => undefined);
  await assignUsername(database, alice.pubkey, 'alice');
  await database.close();
  return { ...emptyDatabase, alice };
}

async function createPostgres(): Promise<Omit<DatabaseWithAlice, 'alice'>> {
  const { location, drop } = await createTestDatabase();
  const secrets = { JWT_SECRET: TEST_JWT_SECRET, TREASURY_SECRET: TEST_TREASURY_SECRET };
  return { env: { ...toDatabaseEnv(location), ...secrets }, location, remove: drop };
}

async function createSqlite(): Promise<Omit<DatabaseWithAlice, 'alice'>> {
  const { dataDir, remove } = await createDataDir();
  const location: DatabaseLocation = { kind: 'sqlite', dataDir };
  return { env: toDatabaseEnv(location), location, remove };
}
