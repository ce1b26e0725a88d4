import Fastify from 'fastify';
import { jwtVerify } from 'jose';
import { openFloorDatabase } from './floor-database.ts';

/**
 * The floor of the quote list: the JWT check by `JWT_SECRET`, one query for one page, JSON. Each token is checked
 * each time, where the service remembers those that it found good.
 */

const PAGE_SIZE = 50;

const PAGE = `
  select paid_count as total, quotes.mint_url, quote_id, request, amount_sat, state, locked,
         created_at, expires_at, paid_at
  from users join quotes using (pubkey)
  where pubkey = $1 and paid_seq is not null
  order by paid_seq desc limit ${PAGE_SIZE}`;

interface PageRow {
  total: number;
  mint_url: string;
  quote_id: string;
  request: string;
  amount_sat: number;
  state: string;
  locked: boolean;
  created_at: Date;
  expires_at: Date;
  paid_at: Date;
}

// Once: given its bytes, jose would import them for each token.
const key = await crypto.subtle.importKey(
  'raw',
  Buffer.from(process.env['JWT_SECRET'] ?? ''),
  { name: 'HMAC', hash: 'SHA-256' },
  false,
  ['verify'],
);
const database = await openFloorDatabase();

const app = Fastify();
app.get('/api/v2/wallet/quotes', async ({ headers: { authorization = '' } }) => {
  const { payload } = await jwtVerify(authorization.slice('Bearer '.length), key);
  const rows = (await database.query(PAGE, [payload.sub])).rows as PageRow[];
  return {
    error: false,
    data: { quotes: rows.map(toQuote) },
    metadata: { total: rows[0]?.total, limit: PAGE_SIZE },
  };
});
const url = await app.listen({ host: '127.0.0.1', port: 0 });
process.stdout.write(`${JSON.stringify({ url })}\n`);

function toQuote(row: PageRow) {
  return {
    createdAt: toSeconds(row.created_at),
    paidAt: toSeconds(row.paid_at),
    expiresAt: toSeconds(row.expires_at),
    mintUrl: row.mint_url,
    quoteId: row.quote_id,
    request: row.request,
    amount: row.amount_sat,
    state: row.state,
    locked: row.locked,
  };
}

function toSeconds(date: Date): number {
  return Math.floor(date.getTime() / 1000);
}
