import { randomBytes } from 'node:crypto';
import type { Database } from '../../../src/database/database.ts';
import { transaction } from '../../../src/database/transaction.ts';
import { addZapReceipts } from '../../../src/zaps/zap-receipt-store.ts';
import { insertPaidQuotes, randomPubkey } from '../recipients/quote-fixtures.ts';

/** @param options.events the receipts in JSON, or a number of receipts without a signature, which relays reject */
export async function insertZapReceipts(
  database: Database,
  options: { events: readonly string[] | number; relays: readonly string[]; createdAtMs: number },
) {
  const events =
    typeof options.events === 'number'
      ? Array.from({ length: options.events }, () => buildUnsignedReceipt())
      : options.events;
  const pubkey = randomPubkey();
  await insertPaidQuotes(database, pubkey, events.length);
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
  await transaction(database.db, (tx) =>
    addZapReceipts(
      tx,
      quotes.map(({ id: quoteRowId }, index) => ({
        quoteRowId,
        pubkey,
        zapRequestId: randomBytes(32).toString('hex'),
        id: receipts[index]?.id ?? '',
        eventJson: receipts[index]?.eventJson ?? '',
        relayUrls: options.relays,
        createdAtMs: options.createdAtMs,
      })),
    ),
  );
  return receipts;
}

export async function readDeliveriesToRelay(database: Database, relay: string) {
  const rows = await database.db
    .selectFrom('zap_receipt_deliveries')
    .selectAll()
    .where('relay', '=', relay)
    .execute();
  return new Map(rows.map((row) => [row.receipt, row]));
}

export async function countDeliveriesByState(database: Database, relay: string) {
  const counts: Record<string, number> = {};
  for (const { state } of (await readDeliveriesToRelay(database, relay)).values()) {
    counts[state] = (counts[state] ?? 0) + 1;
  }
  return counts;
}

function buildUnsignedReceipt(): string {
  return JSON.stringify({ id: randomBytes(32).toString('hex'), kind: 9735 });
}
