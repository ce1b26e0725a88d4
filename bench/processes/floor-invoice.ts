import Fastify from 'fastify';
import { request } from 'undici';
import { openFloorDatabase } from './floor-database.ts';

/** The floor of an invoice: one POST to the mint at `MINT_URL`, one committed insert, no checks. */

const PUBKEY = '00'.repeat(32);

const INSERT = `
  insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked,
                      created_at, expires_at)
  values ($1, $2, $3, $4, $5, 'UNPAID', false, now(), to_timestamp($6))`;

interface Quote {
  quote: string;
  request: string;
  expiry: number;
}

const mintUrl = process.env['MINT_URL'] ?? '';
const database = await openFloorDatabase();

const app = Fastify();
app.get<{ Querystring: { amount: string } }>(
  '/.well-known/lnurlp/:user',
  async ({ query: { amount } }) => {
    const amountSat = Number(amount) / 1000;
    const answer = await request(`${mintUrl}/v1/mint/quote/bolt11`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ amount: amountSat, unit: 'sat' }),
    });
    const quote = (await answer.body.json()) as Quote;
    await database.query(INSERT, [
      mintUrl,
      quote.quote,
      PUBKEY,
      quote.request,
      amountSat,
      quote.expiry,
    ]);
    return { pr: quote.request, routes: [] };
  },
);
const url = await app.listen({ host: '127.0.0.1', port: 0 });
process.stdout.write(`${JSON.stringify({ url })}\n`);
