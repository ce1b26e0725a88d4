/**
 * Open quotes of some mints. One quote in twenty is paid but not issued. Each quote has a different recipient.
 *
 * The service watches a paid quote for 168 hours, and an unpaid quote until 24 hours after its expiry. The ages of the
 * quotes are evenly spread over these times, without the last hour, so that no watch ends during the benchmark. `age` is
 * a fraction of this time: multiples of the golden ratio, modulo 1, are evenly spread for any number of quotes.
 */
const INSERT_OPEN_QUOTES = `
  with ages as (
    select url, case when n % 20 = 1 then 'p' else 'u' end || '-' || mint || '-' || n as quote_id,
           n % 20 = 1 as is_paid, n,
           case when n % 3 = 0 then 24 else 1 end * 3600000::bigint as lifetime,
           (n * 0.618034 + mint * 0.01) % 1 as age
    from unnest($1::text[]) with ordinality as mints (url, mint)
    cross join generate_series(0, $2::int - 1) as n
  ), quotes_to_add as (
    select *, md5(quote_id) || md5(url || quote_id) as pubkey,
           (extract(epoch from now()) * 1000
             - age * case when is_paid then 167 * 3600000 else lifetime + 23 * 3600000 end)::bigint
             as created_at
    from ages
  ), recipients as (
    insert into users (pubkey, paid_count, last_paid_at)
    select pubkey, 1, created_at from quotes_to_add where is_paid
  )
  insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked, created_at,
                      expires_at, paid_at, paid_seq, watch_until, payment_hash)
  select url, quote_id, pubkey, rpad('lnbc210n1p' || quote_id, 320, 'q'), 21,
         case when is_paid then 'PAID' else 'UNPAID' end, 0, created_at, created_at + lifetime,
         case when is_paid then created_at end, case when is_paid then 1 end,
         created_at + case when is_paid then 168 * 3600000 else lifetime + 24 * 3600000 end,
         pubkey
  from quotes_to_add order by created_at`;

/** Adds quotes that the service watches, and that the mints of `mint-fleet.ts` know. */
export async function addOpenQuotes(
  database: { query: (statement: string, values: unknown[]) => Promise<unknown> },
  mintUrls: readonly string[],
  quotesPerMint: number,
): Promise<void> {
  await database.query(INSERT_OPEN_QUOTES, [mintUrls, quotesPerMint]);
}
