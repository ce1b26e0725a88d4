import { randomBytes } from 'node:crypto';
import { json } from 'node:stream/consumers';
import Fastify from 'fastify';
import { request } from 'undici';
import { openFloorDatabase } from './floor-database.ts';

/**
 * The floor of an invoice: one POST to the mint at `MINT_URL`, one committed insert, no checks. Order and
 * row are those of the service, but for what it would take from the answer. Standard input tells it the key (hex) of
 * each npub.
 */

/** A quote is watched for a day. */
const WATCH_MS = 24 * 60 * 60_000;

const INSERT = `
  insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked,
                      created_at, expires_at, verify_token, payment_hash, watch_until, address_group)
  values ($1, $2, $3, $4, $5, 'UNPAID', false, $6, to_timestamp($7), $8, $9, $10, $11)`;

interface Quote {
  quote: string;
  request: string;
  expiry: number;
}

const pubkeys = (await json(process.stdin)) as Record<string, string>;
const mintUrl = process.env['MINT_URL'] ?? '';
const database = await openFloorDatabase();

const app = Fastify();
app.get<{ Params: { user: string }; Querystring: { amount: string } }>(
  '/.well-known/lnurlp/:user',
  async ({ params: { user }, query: { amount } }) => {
    const amountSat = Number(amount) / 1000;
    const description = `Payment to ${user}@nutpost.example`;
    const answer = await request(`${mintUrl}/v1/mint/quote/bolt11`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ amount: amountSat, unit: 'sat', description }),
    });
    const quote = (await answer.body.json()) as Quote;
    const nowMs = Date.now();
    const verifyToken = randomBytes(32).toString('hex');
    await database.query(INSERT, [
      mintUrl,
      quote.quote,
      pubkeys[user],
      quote.request,
      amountSat,
      new Date(nowMs),
      quote.expiry,
      verifyToken,
      randomBytes(32).toString('hex'),
      new Date(nowMs + WATCH_MS),
      randomBytes(8).toString('hex'),
    ]);
    return { pr: quote.request, routes: [], verify: `https://nutpost.example/${verifyToken}` };
  },
);
const url = await app.listen({ host: '127.0.0.1', port: 0 });
process.stdout.write(`${JSON.stringify({ url })}\n`);
