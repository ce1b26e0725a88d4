import { sql } from 'kysely';
import { DatabaseStore, databaseNow, isAny, jsonRows } from '../database/sql.ts';
import { HISTORY_MS } from '../retention.ts';
import { GIVE_UP_AFTER_MS, type RelayStanding } from './receipt-delivery.ts';
import type { DeliveryState } from '../database/schema.ts';

/** A signed receipt, and where to publish it. */
export interface NewZapReceipt {
  /** `quotes.id`. */
  quote: number;
  /** Of the event, hex. */
  id: string;
  /** The signed event in JSON. */
  event: string;
  /** Normalised urls, each once. */
  relays: readonly string[];
  /** When the payment was recorded (milliseconds since 1970). */
  createdAtMs: number;
}

/** A quote's receipt, and its state at each relay. Times in milliseconds since 1970. */
export interface TracedReceipt {
  /** Of the event, hex. */
  id: string;
  createdAtMs: number;
  /** In the order of their urls. */
  deliveries: TracedDelivery[];
}

/** A receipt at one relay. */
export interface TracedDelivery {
  /** Normalised url. */
  relay: string;
  state: DeliveryState;
  /** How often it was sent. */
  tries: number;
  /** The result of the last try, printable. */
  lastWord: string | null;
  lastTryAtMs: number | null;
  /** Null unless the delivery is open. */
  nextTryAtMs: number | null;
  giveUpAtMs: number;
  /** How the relay stands if it is in trouble and the delivery is open; null otherwise. */
  standing: RelayStanding | null;
}

const RECEIPT_COLUMNS = {
  id: 'text',
  quote: 'bigint',
  event: 'text',
  created_at: 'bigint',
} as const;

const DELIVERY_COLUMNS = {
  receipt: 'text',
  relay: 'text',
  next_try_at: 'bigint',
  give_up_at: 'bigint',
} as const;

/** Zap receipts (NIP-57); `store.deliveries` is their outbox. */
export class ZapReceiptStore extends DatabaseStore {
  /** The zap requests of these quotes (`quotes.id`), by quote; ordinary payments have none. */
  async findRequests(quotes: readonly number[]): Promise<Map<number, string>> {
    const { rows } = await sql<{ id: number; zap_request: string }>`
      select id, zap_request from quotes
      where zap_request is not null
        and ${isAny(this.db, 'id', 'bigint', quotes)}
    `.execute(this.db);
    return new Map(rows.map((row) => [row.id, row.zap_request]));
  }

  /**
   * Stores receipts, each due at every relay at once. A quote that has one keeps it, and no event is stored
   * twice.
   */
  async add(receipts: readonly NewZapReceipt[]): Promise<void> {
    if (receipts.length === 0) {
      return;
    }
    const rows = receipts.map(({ quote, id, event, createdAtMs }) => ({
      quote,
      id,
      event,
      created_at: createdAtMs,
    }));
    const { rows: added } = await sql<{ id: string; quote: number }>`
      insert into zap_receipts (id, quote, event, created_at)
      select id, quote, event, created_at
      from ${jsonRows(this.db, RECEIPT_COLUMNS, rows)} as signed
      where true
      on conflict do nothing
      returning id, quote
    `.execute(this.db);
    const isAdded = ({ id, quote }: NewZapReceipt) =>
      added.some((row) => row.id === id && row.quote === quote);
    const deliveries = receipts.filter(isAdded).flatMap(({ id, relays, createdAtMs }) =>
      relays.map((relay) => ({
        receipt: id,
        relay,
        next_try_at: createdAtMs,
        give_up_at: createdAtMs + GIVE_UP_AFTER_MS,
      })),
    );
    await sql`
      insert into zap_receipt_deliveries (receipt, relay, state, next_try_at, give_up_at)
      select receipt, relay, 'open', next_try_at, give_up_at
      from ${jsonRows(this.db, DELIVERY_COLUMNS, deliveries)} as open
    `.execute(this.db);
  }

  /** The receipt of a quote (`quotes.id`); null if there is none, or it was deleted. */
  async findByQuote(quote: number): Promise<TracedReceipt | null> {
    const receipt = await this.db
      .selectFrom('zap_receipts')
      .select(['id', 'created_at'])
      .where('quote', '=', quote)
      .executeTakeFirst();
    if (receipt === undefined) {
      return null;
    }
    const deliveries = await this.db
      .selectFrom('zap_receipt_deliveries as delivery')
      .leftJoin('relays', 'relays.url', 'delivery.relay')
      .selectAll('delivery')
      .select(['failures', 'rest_until', 'relays.last_word as relay_word'])
      .where('receipt', '=', receipt.id)
      .orderBy('relay')
      .execute();
    return {
      id: receipt.id,
      createdAtMs: receipt.created_at,
      deliveries: deliveries.map((row) => ({
        relay: row.relay,
        state: row.state,
        tries: row.tries,
        lastWord: row.last_word || null,
        lastTryAtMs: row.last_try_at,
        nextTryAtMs: row.next_try_at,
        giveUpAtMs: row.give_up_at,
        standing: row.state === 'open' ? standingOf(row) : null,
      })),
    };
  }

  /**
   * Deletes receipts older than {@link HISTORY_MS} with their deliveries, which were given up long before.
   *
   * @returns whether there may be more than `limit` of them
   */
  async prune(limit: number): Promise<boolean> {
    const { numAffectedRows } = await sql`
      delete from zap_receipts where id in (
        select id from zap_receipts
        where created_at < ${databaseNow(this.db)} - ${HISTORY_MS}
        order by created_at limit ${limit}
      )
    `.execute(this.db);
    return numAffectedRows === BigInt(limit);
  }

  /** As {@link prune}, deletes relays that nothing was sent to for as long. */
  async pruneRelays(limit: number): Promise<boolean> {
    const { numAffectedRows } = await sql`
      delete from relays where url in (
        select url from relays
        where last_try_at < ${databaseNow(this.db)} - ${HISTORY_MS}
        limit ${limit}
      )
    `.execute(this.db);
    return numAffectedRows === BigInt(limit);
  }
}

/** Null for a relay without trouble. */
function standingOf(row: {
  failures: number | null;
  rest_until: number | null;
  relay_word: string | null;
}): RelayStanding | null {
  return row.failures === null || row.failures === 0
    ? null
    : {
        failures: row.failures,
        restUntilMs: row.rest_until,
        word: row.relay_word || null,
      };
}
