import { type DatabaseLocation, openDatabase } from '../../src/database/database.ts';
import { createDataDir, createTestDatabase, hasServer } from './database.ts';
import { giveName } from './names.ts';
import { TestWallet } from './wallet.ts';
import { TEST_JWT_SECRET, TEST_TREASURY_SECRET } from './world.ts';

/** Where services and commands of their own keep their data, and a recipient there who has a name. */
export interface Place {
  /** What a service and a command are told of it. */
  env: Record<string, string>;
  location: DatabaseLocation;
  alice: TestWallet;
  remove(): Promise<void>;
}

/** Makes a place, on the server or in a `DATA_DIR`. */
export async function createPlace(): Promise<Place> {
  const place = await (hasServer ? onServer() : inFiles());
  const alice = new TestWallet('http://localhost');
  const database = await openDatabase(place.location, () => undefined);
  await giveName(database, alice.pubkey, 'alice');
  await database.close();
  return { ...place, alice };
}

async function onServer(): Promise<Omit<Place, 'alice'>> {
  const { location, drop } = await createTestDatabase();
  const url = location.kind === 'postgres' ? location.url : '';
  const secrets = { JWT_SECRET: TEST_JWT_SECRET, TREASURY_SECRET: TEST_TREASURY_SECRET };
  return { env: { DATABASE_URL: url, ...secrets }, location, remove: drop };
}

async function inFiles(): Promise<Omit<Place, 'alice'>> {
  const { dataDir, remove } = await createDataDir();
  return { env: { DATA_DIR: dataDir }, location: { kind: 'sqlite', dataDir }, remove };
}
