import { generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import { createDatabase, createDataDir, type ServiceDatabase } from '../harness/database.ts';
import type { Effort, Row } from '../harness/figure.ts';
import { startFloor, startService, startTestMint } from '../harness/servers.ts';
import { compareThroughput } from '../harness/throughput.ts';

const RATIO = 0.45;

const RECIPIENTS = 1_024;

const FLOOR = import.meta.resolve('../floors/invoice.ts');

/**
 * Invoices from a mint that answers at once. Floor: one POST to that mint and one committed insert. The floor of SQLite
 * is the service on PostgreSQL.
 */
export async function measureInvoice(serverUrl: string, effort: Effort): Promise<Row[]> {
  await using mint = await startTestMint();
  const recipients = Array.from({ length: RECIPIENTS }, () => {
    const pubkey = getPublicKey(generateSecretKey());
    return { pubkey, npub: nip19.npubEncode(pubkey) };
  });
  const requests = recipients.map(({ npub }, i) => {
    // An amount of its own for each recipient. BOLT 11 writes one that ends in 1 in nanobitcoins.
    const amountSat = 10 * i + 11;
    return {
      path: `/.well-known/lnurlp/${npub}?amount=${amountSat * 1000}`,
      expect: `"pr":"lnbc${amountSat * 10}n1`,
    };
  });
  const serviceOn =
    (create: () => Promise<ServiceDatabase>) => async (stack: AsyncDisposableStack) => {
      const database = stack.use(await create());
      const server = stack.use(await startService(mint.ready.url, database));
      return { server, requests, check: (invoices: number) => findMissing(database, invoices) };
    };
  const row = await compareThroughput(
    { title: 'invoice', unit: '/s', ratioAtLeast: RATIO },
    serviceOn(() => createDatabase(serverUrl)),
    async (stack) => {
      const database = stack.use(await createDatabase(serverUrl));
      const env = { MINT_URL: mint.ready.url, DATABASE_URL: database.url };
      const pubkeys = Object.fromEntries(recipients.map(({ npub, pubkey }) => [npub, pubkey]));
      const server = stack.use(await startFloor(FLOOR, env, pubkeys));
      return { server, requests, check: (invoices) => findMissing(database, invoices) };
    },
    effort,
  );
  const sqliteRow = await compareThroughput(
    { title: 'invoice on SQLite, floor: on PostgreSQL', unit: '/s', ratioAtLeast: 1 },
    serviceOn(createDataDir),
    serviceOn(() => createDatabase(serverUrl)),
    effort,
  );
  return [row, sqliteRow];
}

/** Every invoice that was returned must be in the database. There may be more, whose response was cut off. */
async function findMissing(database: ServiceDatabase, invoices: number): Promise<string | null> {
  const [row] = await database.query<{ quotes: number }>(
    'select cast(count(*) as integer) as quotes from quotes',
  );
  const quotes = row?.quotes ?? 0;
  return quotes < invoices ? `${quotes} of ${invoices} invoices are in the database` : null;
}
