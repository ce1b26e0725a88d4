import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import type { Database } from '../src/store/database.ts';
import { compareToBareRoute } from './harness/bare-answer.ts';
import type { Figure } from './harness/figure.ts';
import { addNames, names } from './harness/names.ts';
import { startMint } from './harness/servers.ts';
import { pubkeyOf } from './harness/wallets.ts';

const CONNECTIONS = 64;

/** To the floor, at least. */
const RATIO = 0.5;

/** Invoices and names asked for in turn. */
const LOOKUPS = 1_024;

/**
 * How an invoice stands (LUD-21), of as many that are paid as are not, and the key behind a name (NIP-05).
 * Floor: a bare Fastify route that returns the same bytes.
 */
export const lookups: Figure = {
  async measure(databases, effort) {
    await using mint = await startMint();
    await using database = await databases.create();
    await database.prepare(async (db) => {
      await addInvoices(db);
      await addNames(db, LOOKUPS);
    });
    const verify = {
      title: 'verify url',
      connections: CONNECTIONS,
      route: '/lnurl/verify/:token',
      lookups: Array.from({ length: LOOKUPS }, (_, index) => lookupOf(index + 1)),
      staysAwake: true,
      ratio: RATIO,
    };
    const nip05 = {
      title: 'NIP-05',
      connections: CONNECTIONS,
      route: '/.well-known/nostr.json',
      lookups: names(LOOKUPS).map((name, index) => ({
        path: `/.well-known/nostr.json?name=${name}`,
        expect: `{"names":{"${name}":"${pubkeyOf(index + 1)}"}`,
      })),
      staysAwake: true,
      ratio: RATIO,
    };
    return [
      await compareToBareRoute(verify, mint, database, effort),
      await compareToBareRoute(nip05, mint, database, effort),
    ];
  },
};

/** How an invoice stands, by its number. */
function lookupOf(invoice: number) {
  const request = 'lnbc210n1'.padEnd(300, createHash('md5').update(String(invoice)).digest('hex'));
  return {
    path: `/lnurl/verify/${tokenOf(invoice)}`,
    expect: `"settled":${invoice % 2 === 0},"preimage":null,"pr":"${request}"`,
  };
}

/** The verify token of an invoice by its number. */
function tokenOf(invoice: number): string {
  return invoice.toString(16).padStart(64, '0');
}

/** Every other one is paid. */
async function addInvoices(db: Database['db']): Promise<void> {
  await sql`
    insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked, created_at,
                        expires_at, paid_at, paid_seq, verify_token)
    select 'https://mint.example', gen_random_uuid(), repeat('a', 64),
           rpad('lnbc210n1', 300, md5(n::text)), 21,
           case when n % 2 = 0 then 'PAID' else 'UNPAID' end, false, now(), now() + interval '1 h',
           case when n % 2 = 0 then now() end, case when n % 2 = 0 then n end,
           lpad(to_hex(n), 64, '0')
    from generate_series(1, ${LOOKUPS}::int) as n`.execute(db);
}
