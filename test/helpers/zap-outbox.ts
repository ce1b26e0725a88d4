import { randomBytes } from 'node:crypto';
import type { Database } from '../../src/database/database.ts';
import { Store } from '../../src/store.ts';
import { keepPayments, newPubkey } from './quotes.ts';

/** A receipt as a test sees it; `text` stands for the signed event where no relay looks at it. */
export interface PlantedReceipt {
  id: string;
  text: string;
}

/**
 * Keeps receipts of payments that have arrived, each due at every one of the relays.
 *
 * @param options.texts the events, or how many of some that no relay would take
 * @param options.atMs when they were made (milliseconds since 1970)
 */
export async function plantReceipts(
  database: Database,
  options: { texts: readonly string[] | number; relays: readonly string[]; atMs: number },
): Promise<PlantedReceipt[]> {
  const texts =
    typeof options.texts === 'number'
      ? Array.from({ length: options.texts }, () => eventText())
      : options.texts;
  const pubkey = newPubkey();
  await keepPayments(database, pubkey, texts.length);
  const quotes = await database.db
    .selectFrom('quotes')
    .select('id')
    .where('pubkey', '=', pubkey)
    .orderBy('id')
    .execute();
  const receipts = texts.map((text) => ({ id: (JSON.parse(text) as { id: string }).id, text }));
  await new Store(database.db).zapReceipts.add(
    quotes.map(({ id: quote }, index) => ({
      quote,
      id: receipts[index]?.id ?? '',
      event: receipts[index]?.text ?? '',
      relays: options.relays,
      createdAtMs: options.atMs,
    })),
  );
  return receipts;
}

/** How each receipt stands at a relay, by its id. */
export async function standingAt(database: Database, relay: string) {
  const rows = await database.db
    .selectFrom('zap_receipt_deliveries')
    .selectAll()
    .where('relay', '=', relay)
    .execute();
  return new Map(rows.map((row) => [row.receipt, row]));
}

/** How many of the deliveries to a relay are in each state. */
export async function countsAt(database: Database, relay: string): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { state } of (await standingAt(database, relay)).values()) {
    counts[state] = (counts[state] ?? 0) + 1;
  }
  return counts;
}

export function relayRow(database: Database, url: string) {
  return database.db.selectFrom('relays').selectAll().where('url', '=', url).executeTakeFirst();
}

function eventText(): string {
  return JSON.stringify({ id: randomBytes(32).toString('hex'), kind: 9735 });
}
