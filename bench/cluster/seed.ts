import { hash } from 'node:crypto';
import { getPublicKey } from 'nostr-tools';
import { Client } from 'pg';
import { openDatabase } from '../../src/database/database.ts';
import { addOpenQuotes } from '../harness/open-quotes.ts';
import { createSecretKey, getMintIndex } from './simulated-wallets.ts';

export interface SeedOptions {
  quoteCount: number;
  /** The first users have wallets whose keys the load generators know. */
  walletCount: number;
  /** The mints of the users. */
  mintUrls: readonly string[];
  /** The mints of the watched quotes: those of `mint-fleet.ts`. */
  watchedMintUrls: readonly string[];
  watchedQuoteCount: number;
}

const QUOTES_PER_USER = 100;

/** Few enough that the progress is visible and the standby keeps up. */
const QUOTES_PER_STATEMENT = 500_000;

/** Makes the creation of the large indexes faster. Commits need not wait for the standby. */
const SESSION_SETTINGS = `
  set maintenance_work_mem = '1GB';
  set synchronous_commit = off`;

/**
 * Quotes whose watch has ended. Their creation is evenly spread over a year, so that each user has a quote every few
 * days. Half of the quotes of each user are paid and issued. The lengths of the texts are those of a Nutshell mint.
 */
const INSERT_QUOTES = `
  insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked, created_at,
                      expires_at, paid_at, paid_seq, verify_token_hash, payment_hash)
  select mint_url, (lpad(to_hex(created_at), 12, '0') || left(md5(n::text), 20))::uuid::text, pubkey,
         'lnbc210n1p' || encode(sha512(('a' || n)::bytea), 'hex')
                      || encode(sha512(('b' || n)::bytea), 'hex') || md5(n::text),
         21, case when is_paid then 'ISSUED' else 'EXPIRED' end, 0, created_at, created_at + 3600000,
         case when is_paid then created_at + 20000 end, case when is_paid then round / 2 + 1 end,
         encode(sha256(('t' || n)::bytea), 'hex'), encode(sha256(('h' || n)::bytea), 'hex')
  from (
    select n, n % $3 as number, n / $3 as round, n / $3 % 2 = 0 as is_paid,
           (extract(epoch from now()) * 1000)::bigint - 3 * 86400000::bigint
             - ((1 - n::float8 / $4) * 362 * 86400000)::bigint as created_at
    from generate_series($1::bigint, $2::bigint) as n
  ) as quotes_to_add
  join bench_users using (number)
  order by n`;

/** Creates the tables and fills them. Builds the indexes last, which is several times as fast. */
export async function seedDatabase(url: string, options: SeedOptions): Promise<void> {
  const { quoteCount, mintUrls, watchedMintUrls, watchedQuoteCount } = options;
  const migrated = await openDatabase({ kind: 'postgres', url }, () => undefined);
  await migrated.close();
  const client = new Client({ connectionString: url });
  // If the connection breaks, the running statement fails as well.
  client.on('error', () => undefined);
  await client.connect();
  try {
    await client.query(SESSION_SETTINGS);
    const createIndexes = await dropIndexes(client);
    const userCount = await addUsers(client, options);
    for (let first = 0; first < quoteCount; first += QUOTES_PER_STATEMENT) {
      const last = Math.min(first + QUOTES_PER_STATEMENT, quoteCount) - 1;
      await client.query(INSERT_QUOTES, [first, last, userCount, quoteCount]);
      console.log(`  ${(last + 1).toLocaleString('en')} quotes`);
    }
    console.log('  indexes');
    await createIndexes();
    const quotesPerMint = Math.ceil(watchedQuoteCount / watchedMintUrls.length);
    await addOpenQuotes(client, watchedMintUrls, quotesPerMint);
    console.log(`  vacuum; ${mintUrls.length + watchedMintUrls.length} mints`);
    await client.query('drop table bench_users');
    // Without this, the first reads would set hint bits, which writes WAL.
    await client.query('vacuum (freeze, analyze)');
  } finally {
    await client.end();
  }
}

/** Adds the users and a table of their numbers. Returns how many there are. */
async function addUsers(
  client: Client,
  { quoteCount, walletCount, mintUrls }: SeedOptions,
): Promise<number> {
  const userCount = Math.max(walletCount, Math.ceil(quoteCount / QUOTES_PER_USER));
  const pubkeys = Array.from({ length: userCount }, (_, user) =>
    user < walletCount ? getPublicKey(createSecretKey(user)) : hash('sha256', `user ${user}`),
  );
  const userMintUrls = pubkeys.map((_, user) => mintUrls[getMintIndex(user, mintUrls.length)]);
  await client.query(
    'create unlogged table bench_users (number bigint primary key, pubkey text, mint_url text)',
  );
  await client.query(
    `insert into bench_users
     select number - 1, pubkey, mint_url
     from unnest($1::text[], $2::text[]) with ordinality as users (pubkey, mint_url, number)`,
    [pubkeys, userMintUrls],
  );
  await client.query('analyze bench_users');
  await client.query(
    `insert into users (pubkey, mint_url, paid_count, last_paid_at, listed_until)
     select pubkey, mint_url, (($1::bigint - number + $2 - 1) / $2 + 1) / 2,
            (extract(epoch from now()) * 1000)::bigint - 3 * 86400000::bigint,
            extract(epoch from now())::bigint * 1000 - 2 * 86400000::bigint
     from bench_users order by pubkey`,
    [quoteCount, userCount],
  );
  return userCount;
}

/** Drops all indexes of `quotes` but the primary key. Returns a function that creates them again. */
async function dropIndexes(client: Client): Promise<() => Promise<void>> {
  const { rows: constraints } = await client.query<{ name: string; definition: string }>(
    `select conname as name, pg_get_constraintdef(oid) as definition
     from pg_constraint where conrelid = 'quotes'::regclass and contype = 'u'`,
  );
  for (const { name } of constraints) {
    await client.query(`alter table quotes drop constraint ${name}`);
  }
  const { rows: indexes } = await client.query<{ name: string; definition: string }>(
    `select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition
     from pg_index where indrelid = 'quotes'::regclass and not indisprimary`,
  );
  for (const { name } of indexes) {
    await client.query(`drop index ${name}`);
  }
  return async () => {
    for (const { name, definition } of constraints) {
      await client.query(`alter table quotes add constraint ${name} ${definition}`);
    }
    for (const { definition } of indexes) {
      await client.query(definition);
    }
  };
}
