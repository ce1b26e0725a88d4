import { randomBytes } from 'node:crypto';
import type { Database } from '../../src/database/database.ts';
import { Store } from '../../src/store.ts';
import { insertPayments, randomPubkey } from './quotes.ts';

/** A stored receipt; `eventJson` is a placeholder if no relay verifies it. */
export interface OutboxReceipt {
  id: string;
  eventJson: string;
}

/**
 * Inserts payments with receipts that are due at each of the relays.
 *
 * @param options.events the events in JSON, or a number of placeholders that relays would reject
 * @param options.createdAtMs milliseconds since 1970
 */
export async function insertReceipts(
  database: Database,
  options: { events: readonly string[] | number; relays: readonly string[]; createdAtMs: number },
): Promise<OutboxReceipt[]> {
  const events =
    typeof options.events === 'number'
      ? Array.from({ length: options.events }, () => fakeReceiptEvent())
      : options.events;
  const pubkey = randomPubkey();
  await insertPayments(database, pubkey, events.length);
  const quotes = await database.db
    .selectFrom('quotes')
    .select('id')
    .where('pubkey', '=', pubkey)
    .orderBy('id')
    .execute();
  const receipts = events.map((eventJson) => ({
    id: (JSON.parse(eventJson) as { id: string }).id,
    eventJson,
  }));
  await new Store(database.db).zapReceipts.add(
    quotes.map(({ id: quote }, index) => ({
      quote,
      id: receipts[index]?.id ?? '',
      eventJson: receipts[index]?.eventJson ?? '',
      relayUrls: options.relays,
      createdAtMs: options.createdAtMs,
    })),
  );
  return receipts;
}

/** Returns the delivery of each receipt to a relay, by receipt id. */
export async function readDeliveriesTo(database: Database, relay: string) {
  const rows = await database.db
    .selectFrom('zap_receipt_deliveries')
    .selectAll()
    .where('relay', '=', relay)
    .execute();
  return new Map(rows.map((row) => [row.receipt, row]));
}

/** Counts the deliveries to a relay by state. */
export async function countDeliveriesByState(
  database: Database,
  relay: string,
): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { state } of (await readDeliveriesTo(database, relay)).values()) {
    counts[state] = (counts[state] ?? 0) + 1;
  }
  return counts;
}

export function readRelayRow(database: Database, url: string) {
  return database.db.selectFrom('relays').selectAll().where('url', '=', url).executeTakeFirst();
}

function fakeReceiptEvent(): string {
  return JSON.stringify({ id: randomBytes(32).toString('hex'), kind: 9735 });
}
