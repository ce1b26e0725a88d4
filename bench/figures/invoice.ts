import { generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import {
  createDataDir,
  createPostgresDatabase,
  type ServiceDatabase,
} from '../harness/database.ts';
import type { Benchmark } from '../harness/figure.ts';
import { type Server, startFloor, startNutpost, startTestMint } from '../harness/servers.ts';
import { compareThroughput, type LoadTarget } from '../harness/throughput.ts';

const MIN_RATIO = 0.45;

const RECIPIENT_COUNT = 1_024;

const FLOOR_PROGRAM = import.meta.resolve('../floors/invoice.ts');

/**
 * Measures how many invoices the service creates with a mint that responds immediately. The floor is a server that
 * only sends one POST to that mint and commits one insert. For the service on SQLite, the floor is the service on
 * PostgreSQL.
 */
export const measureInvoice: Benchmark = async (serverUrl, options) => {
  await using mint = await startTestMint();
  const recipients = Array.from({ length: RECIPIENT_COUNT }, () => {
    const pubkey = getPublicKey(generateSecretKey());
    return { pubkey, npub: nip19.npubEncode(pubkey) };
  });
  const requests = recipients.map(({ npub }, i) => {
    // A different amount for each recipient. All end in 1, so that the invoice gives them in nanobitcoins (0.1 sat).
    const amountSat = 10 * i + 11;
    return {
      path: `/.well-known/lnurlp/${npub}?amount=${amountSat * 1000}`,
      expectedText: `"pr":"lnbc${amountSat * 10}n1`,
    };
  });
  const createTarget = (server: Server, database: ServiceDatabase): LoadTarget => ({
    server,
    requests,
    findMissingRows: (invoiceCount) => findMissingInvoices(database, invoiceCount),
  });
  const startServiceOn =
    (create: () => Promise<ServiceDatabase>) => async (stack: AsyncDisposableStack) => {
      const database = stack.use(await create());
      const server = stack.use(await startNutpost(mint.readyMessage.url, database));
      return createTarget(server, database);
    };
  return await compareThroughput(
    async (stack) => {
      const database = stack.use(await createPostgresDatabase(serverUrl));
      const env = { MINT_URL: mint.readyMessage.url, DATABASE_URL: database.url };
      const pubkeys = Object.fromEntries(recipients.map(({ npub, pubkey }) => [npub, pubkey]));
      const server = stack.use(await startFloor(FLOOR_PROGRAM, env, pubkeys));
      return createTarget(server, database);
    },
    [
      {
        title: 'invoice',
        unit: '/s',
        minRatio: MIN_RATIO,
        start: startServiceOn(() => createPostgresDatabase(serverUrl)),
      },
      {
        title: 'invoice on SQLite, floor: on PostgreSQL',
        unit: '/s',
        minRatio: 1,
        start: startServiceOn(createDataDir),
      },
    ],
    options,
  );
};

/** Returns a problem if invoices are missing. Extra ones are expected, because the end of a run cuts off some responses. */
async function findMissingInvoices(
  database: ServiceDatabase,
  invoiceCount: number,
): Promise<string | null> {
  const [row] = await database.query<{ quoteCount: number }>(
    'select cast(count(*) as integer) as "quoteCount" from quotes',
  );
  const quoteCount = row?.quoteCount ?? 0;
  return quoteCount < invoiceCount
    ? `${quoteCount} of ${invoiceCount} invoices are in the database`
    : null;
}
