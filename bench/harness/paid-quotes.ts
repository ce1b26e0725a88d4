import { JwtIssuer } from '../../src/http/jwt.ts';
import type { BenchPostgresDatabase } from './database.ts';
import { JWT_SECRET } from './servers.ts';

/** A group of users who all have the same number of payments. */
export interface PaidUsers {
  /** The number of the first user. The other users have the following numbers. */
  firstUser: number;
  userCount: number;
  paymentsPerUser: number;
}

const USER_AGENT = 'bench';

/** Adds users and their paid quotes. The rows of different users alternate, as with real payments. */
export async function addPaidQuotes(
  database: BenchPostgresDatabase,
  { firstUser, userCount, paymentsPerUser }: PaidUsers,
): Promise<void> {
  await database.query(
    `insert into users (pubkey, paid_count, last_paid_at, listed_until)
     select lpad(to_hex(number), 64, '0'), $3, extract(epoch from now())::bigint * 1000,
            extract(epoch from now())::bigint * 1000 + 1000
     from generate_series($1::int, $1::int + $2::int - 1) as number`,
    [firstUser, userCount, paymentsPerUser],
  );
  await database.query(
    `insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked,
                         created_at, expires_at, paid_at, paid_seq)
     select 'https://mint.example', 'quote-' || number || '-' || seq,
            lpad(to_hex(number), 64, '0'), rpad('lnbc', 300, md5(number || ' ' || seq)), seq,
            'ISSUED', 0, paid_at - 20000, paid_at + 3600000, paid_at, seq
     from (
       select $1::int + n % $2::int as number, n / $2::int + 1 as seq,
              (extract(epoch from now())::bigint - ($3::int - n / $2::int) * 2) * 1000 as paid_at
       from generate_series(0, $2::int * $3::int - 1) as n
     ) as payments`,
    [firstUser, userCount, paymentsPerUser],
  );
}

/** Returns the text by which a page of the user's list shows a payment. @param seq 1 for the user's oldest payment */
export function expectedQuoteText(user: number, seq: number): string {
  return `"quoteId":"quote-${user}-${seq}"`;
}

/** Returns the headers that authenticate a user's wallet. */
export async function createWalletHeaders(user: number): Promise<Record<string, string>> {
  const pubkey = user.toString(16).padStart(64, '0');
  const issuer = new JwtIssuer(JWT_SECRET, null);
  const token = await issuer.issue(pubkey, USER_AGENT, Math.floor(Date.now() / 1000));
  return { authorization: `Bearer ${token}`, 'user-agent': USER_AGENT };
}
