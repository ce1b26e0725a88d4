import { sql } from 'kysely';
import type { BenchDatabase } from './database.ts';
import type { Recipient } from './recipients.ts';

/** An invoice to be asked for. Nobody else is asked for as much, so that its amount says whose it is. */
export interface InvoiceQuestion {
  /** Its recipient; the key in hex. */
  npub: string;
  pubkey: string;
  amountSat: number;
  /** Of the request, with its query. */
  path: string;
  /** Text that the right answer holds, and no other's: how the invoice begins (BOLT 11). */
  expect: string;
}

/** An invoice of each of some recipients. */
export function invoiceQuestions(
  recipients: readonly Pick<Recipient, 'pubkey' | 'npub'>[],
): InvoiceQuestion[] {
  return recipients.map(({ pubkey, npub }, index) => {
    // What ends in 1 is written in nanobitcoins, however large it is.
    const amountSat = 10 * index + 11;
    return {
      npub,
      pubkey,
      amountSat,
      path: `/.well-known/lnurlp/${npub}?amount=${amountSat * 1000}`,
      expect: `"lnbc${amountSat * 10}n1`,
    };
  });
}

/**
 * How many quotes are in a database as they were asked for: each its recipient's, with the amount that this one was
 * asked for, in its row and in its invoice. No other process may have an embedded database open.
 */
export async function countAskedQuotes(
  database: Pick<BenchDatabase, 'prepare'>,
  questions: readonly InvoiceQuestion[],
): Promise<number> {
  const asked = questions.map(({ pubkey, amountSat }) => ({ pubkey, amount_sat: amountSat }));
  let quotes = 0;
  await database.prepare(async (db) => {
    const { rows } = await sql<{ quotes: number }>`
      select count(*)::int as quotes
      from quotes
      join json_to_recordset(${JSON.stringify(asked)}::json) as asked (pubkey text, amount_sat bigint)
        using (pubkey, amount_sat)
      where starts_with(request, 'lnbc' || amount_sat * 10 || 'n1')`.execute(db);
    quotes = rows[0]?.quotes ?? 0;
  });
  return quotes;
}
