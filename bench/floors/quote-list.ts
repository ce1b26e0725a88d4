import Fastify from 'fastify';
import { jwtVerify } from 'jose';
import pg from 'pg';

/**
 * The floor for the `quote-list` figure: checks the JWT with `JWT_SECRET`, runs one prepared query and returns JSON.
 */

const SELECT_PAGE = {
  name: 'page',
  text: `
    select paid_count::int as total, (created_at / 1000)::int as "createdAt",
           (paid_at / 1000)::int as "paidAt",
           (expires_at / 1000)::int as "expiresAt", quotes.mint_url as "mintUrl",
           quote_id as "quoteId", request, amount_sat::int as amount, state, locked
    from users join quotes using (pubkey)
    where pubkey = $1 and paid_seq is not null
    order by paid_seq desc limit 50`,
};

const jwtKey = await crypto.subtle.importKey(
  'raw',
  Buffer.from(process.env['JWT_SECRET'] ?? ''),
  { name: 'HMAC', hash: 'SHA-256' },
  false,
  ['verify'],
);
const pool = new pg.Pool({ connectionString: process.env['DATABASE_URL'], max: 10 });

const app = Fastify();
app.get('/api/v2/wallet/quotes', async ({ headers: { authorization = '' } }) => {
  const { payload } = await jwtVerify(authorization.slice('Bearer '.length), jwtKey);
  const { rows } = await pool.query<{ total: number }>(SELECT_PAGE, [payload.sub]);
  const quotes = rows.map(({ total: _, ...quote }) => quote);
  return { error: false, data: { quotes }, metadata: { total: rows[0]?.total, limit: 50 } };
});
const url = await app.listen({ host: '127.0.0.1', port: 0 });
process.stdout.write(`${JSON.stringify({ url })}\n`);
