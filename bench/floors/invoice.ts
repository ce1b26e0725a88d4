import { createHash, randomBytes } from 'node:crypto';
import { json } from 'node:stream/consumers';
import Fastify from 'fastify';
import pg from 'pg';
import { request } from 'undici';

/**
 * The floor for the `invoice` figure: sends one POST to the mint at `MINT_URL` and commits one insert, without any
 * checks. Reads the hex public key of each npub from standard input.
 */

const INSERT_QUOTE = {
  name: 'insert',
  text: `
    insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked, created_at,
                        expires_at, verify_token_hash, payment_hash, watch_until, address_hashes)
    values ($1, $2, $3, $4, $5, 'UNPAID', 0, $6, $7, $8, $9, $10, $11)`,
};

/** A quote is watched for a day. */
const WATCH_MS = 24 * 60 * 60_000;

/** A quote as the mint returns it. */
interface Quote {
  quote: string;
  request: string;
  expiry: number;
}

const pubkeys = (await json(process.stdin)) as Record<string, string>;
const mintUrl = process.env['MINT_URL'] ?? '';
const pool = new pg.Pool({ connectionString: process.env['DATABASE_URL'], max: 10 });

const app = Fastify();
app.get<{ Params: { user: string }; Querystring: { amount: string } }>(
  '/.well-known/lnurlp/:user',
  async ({ params: { user }, query: { amount } }) => {
    const amountSat = Number(amount) / 1000;
    const description = `Payment to ${user}@nutpost.example`;
    const response = await request(`${mintUrl}/v1/mint/quote/bolt11`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ amount: amountSat, unit: 'sat', description }),
    });
    const quote = (await response.body.json()) as Quote;
    const nowMs = Date.now();
    const verifyToken = randomBytes(32).toString('hex');
    await pool.query(INSERT_QUOTE, [
      mintUrl,
      quote.quote,
      pubkeys[user],
      quote.request,
      amountSat,
      nowMs,
      quote.expiry * 1000,
      createHash('sha256').update(verifyToken).digest('hex'),
      randomBytes(32).toString('hex'),
      nowMs + WATCH_MS,
      randomBytes(16).toString('hex'),
    ]);
    return { pr: quote.request, routes: [], verify: `https://nutpost.example/${verifyToken}` };
  },
);
const url = await app.listen({ host: '127.0.0.1', port: 0 });
process.stdout.write(`${JSON.stringify({ url })}\n`);
