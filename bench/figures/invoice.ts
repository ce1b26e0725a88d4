import { generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import {
  createDataDir,
  createPostgresDatabase,
  type ServiceDatabase,
} from '../harness/database.ts';
import type { BenchmarkOptions, ResultRow } from '../harness/figure.ts';
import { startFloor, startNutpost, startTestMint } from '../harness/servers.ts';
import { compareThroughput } from '../harness/throughput.ts';

const MIN_RATIO = 0.45;

const RECIPIENTS = 1_024;

const FLOOR_PROGRAM = import.meta.resolve('../floors/invoice.ts');

/**
 * Measures invoice creation with a mint that responds immediately. Floor: one POST to that mint and one committed
 * insert. For SQLite, the floor is the service on PostgreSQL.
 */
export async function measureInvoice(
  serverUrl: string,
  effort: BenchmarkOptions,
): Promise<ResultRow[]> {
  await using mint = await startTestMint();
  const recipients = Array.from({ length: RECIPIENTS }, () => {
    const pubkey = getPublicKey(generateSecretKey());
    return { pubkey, npub: nip19.npubEncode(pubkey) };
  });
  const requests = recipients.map(({ npub }, i) => {
    // A distinct amount for each recipient. BOLT 11 encodes amounts that end in 1 in nanobitcoins.
    const amountSat = 10 * i + 11;
    return {
      path: `/.well-known/lnurlp/${npub}?amount=${amountSat * 1000}`,
      expectedText: `"pr":"lnbc${amountSat * 10}n1`,
    };
  });
  const serviceOn =
    (create: () => Promise<ServiceDatabase>) => async (stack: AsyncDisposableStack) => {
      const database = stack.use(await create());
      const server = stack.use(await startNutpost(mint.readyMessage.url, database));
      return {
        server,
        requests,
        findMissing: (invoices: number) => findMissing(database, invoices),
      };
    };
  const row = await compareThroughput(
    { title: 'invoice', unit: '/s', minRatio: MIN_RATIO },
    serviceOn(() => createPostgresDatabase(serverUrl)),
    async (stack) => {
      const database = stack.use(await createPostgresDatabase(serverUrl));
      const env = { MINT_URL: mint.readyMessage.url, DATABASE_URL: database.url };
      const pubkeys = Object.fromEntries(recipients.map(({ npub, pubkey }) => [npub, pubkey]));
      const server = stack.use(await startFloor(FLOOR_PROGRAM, env, pubkeys));
      return { server, requests, findMissing: (invoices) => findMissing(database, invoices) };
    },
    effort,
  );
  const sqliteRow = await compareThroughput(
    { title: 'invoice on SQLite, floor: on PostgreSQL', unit: '/s', minRatio: 1 },
    serviceOn(createDataDir),
    serviceOn(() => createPostgresDatabase(serverUrl)),
    effort,
  );
  return [row, sqliteRow];
}

/** Checks that the database has every returned invoice. It may have more, whose responses were cut off. */
async function findMissing(database: ServiceDatabase, invoices: number): Promise<string | null> {
  const [row] = await database.query<{ quotes: number }>(
    'select cast(count(*) as integer) as quotes from quotes',
  );
  const quotes = row?.quotes ?? 0;
  return quotes < invoices ? `${quotes} of ${invoices} invoices are in the database` : null;
}
