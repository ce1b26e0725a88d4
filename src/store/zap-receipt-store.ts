import { type Kysely, sql } from 'kysely';
import {
  type DeliveryState,
  GIVE_UP_AFTER_MS,
  type RelayStanding,
} from '../domain/receipt-delivery.ts';
import { anyOfIds } from './any-of.ts';
import { isJoined } from './joined-row.ts';
import { longAgo } from './long-ago.ts';
import type { Schema } from './schema.ts';

/** A receipt that was just signed, and where it goes. */
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

/** A quote's receipt, and how it stands with each relay. Times in milliseconds since 1970. */
export interface TracedReceipt {
  /** Of the event, hex. */
  id: string;
  createdAtMs: number;
  /** In the order of their urls. */
  deliveries: TracedDelivery[];
}

/** The way of a receipt to one relay. */
export interface TracedDelivery {
  /** Normalised url. */
  relay: string;
  state: DeliveryState;
  /** How often the relay was sent it. */
  tries: number;
  /** What came of the last try. */
  lastWord: string | null;
  lastTryAtMs: number | null;
  /** Null once it has ended. */
  nextTryAtMs: number | null;
  giveUpAtMs: number;
  /** Why the relay gets nothing for now, whichever receipt it is; null where it does, or has to get nothing. */
  standing: RelayStanding | null;
}

/** Zap receipts (NIP-57) as they are made, shown and forgotten; what becomes of each is `store.deliveries`. */
export class ZapReceiptStore {
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
  }

  /** The zap requests of those of these quotes (`quotes.id`) that have one, by quote: up to some KB each. */
  async findRequests(quotes: readonly number[]): Promise<Map<number, string>> {
    if (quotes.length === 0) {
      return new Map();
    }
    const { rows } = await sql<{ id: number; zap_request: string }>`
      select id, zap_request from quotes
      where zap_request is not null
        and id = ${anyOfIds(quotes)}
    `.execute(this.#db);
    return new Map(rows.map((row) => [row.id, row.zap_request]));
  }

  /**
   * Keeps receipts, each due at every relay from now on. A quote that has one keeps it, and no event
   * is kept twice.
   *
   * @returns the relays of those that were kept, each once
   */
  async add(receipts: readonly NewZapReceipt[]): Promise<string[]> {
    if (receipts.length === 0) {
      return [];
    }
    const rows = receipts.map(({ createdAtMs, ...receipt }) => ({
      ...receipt,
      created_at: new Date(createdAtMs).toISOString(),
      give_up_at: new Date(createdAtMs + GIVE_UP_AFTER_MS).toISOString(),
    }));
    const { rows: due } = await sql<{ relay: string }>`
      with signed as materialized (
        select * from json_to_recordset(${JSON.stringify(rows)}::json)
          as signed (quote bigint, id text, event text, relays json,
                     created_at timestamptz, give_up_at timestamptz)
      ), added as (
        insert into zap_receipts (id, quote, event, created_at)
        select id, quote, event, created_at from signed
        on conflict do nothing
        returning id, quote
      ), delivered as (
        insert into zap_receipt_deliveries (receipt, relay, state, next_try_at, give_up_at)
        select id, relay, 'open', signed.created_at, signed.give_up_at
        from added join signed using (id, quote)
          cross join lateral json_array_elements_text(signed.relays) as relay
        returning relay
      )
      select distinct relay from delivered order by relay
    `.execute(this.#db);
    return due.map(({ relay }) => relay);
  }

  /** The receipt of a quote (`quotes.id`); null where there is none, or it is forgotten. */
  async findByQuote(quote: number): Promise<TracedReceipt | null> {
    const rows = await this.#db
      .selectFrom('zap_receipts')
      .leftJoin('zap_receipt_deliveries as delivery', 'delivery.receipt', 'zap_receipts.id')
      .leftJoin('relays', (join) =>
        join
          .onRef('relays.url', '=', 'delivery.relay')
          .on('delivery.state', '=', 'open')
          .on((on) => on.or([on('failures', '>', 0), on('rest_until', 'is not', null)])),
      )
      .select(['zap_receipts.id', 'created_at', 'relay', 'state', 'tries', 'next_try_at'])
      .select(['give_up_at', 'delivery.last_word', 'delivery.last_try_at'])
      .select(['relays.failures', 'rest_until', 'relays.last_word as relay_word'])
      .where('quote', '=', quote)
      .orderBy('relay')
      .execute();
    const [first] = rows;
    return first === undefined
      ? null
      : {
          id: first.id,
          createdAtMs: first.created_at.getTime(),
          deliveries: rows.filter(hasRelay).map(toTracedDelivery),
        };
  }

  /**
   * Forgets the oldest receipts of which nothing is to be sent any more: those older than
   * {@link longAgo} by the database's clock, so that a process whose clock jumped ahead does not
   * forget all. All deliveries of each are looked at: asked for open ones alone, PostgreSQL may read
   * all that is open anywhere.
   *
   * @param beforeMs of these, older ones go (milliseconds since 1970)
   * @returns whether there may be more than `limit` of them
   */
  async prune(beforeMs: number, limit: number): Promise<boolean> {
    const { rows } = await sql`
      delete from zap_receipts where id = any(array(
        select id from zap_receipts
        where created_at < ${longAgo(beforeMs)}
          and (
            select bool_or(next_try_at is not null) from zap_receipt_deliveries
            where receipt = zap_receipts.id
          ) is not true
        order by created_at limit ${limit}
        for update skip locked
      ))
      returning 1
    `.execute(this.#db);
    return rows.length === limit;
  }

  /**
   * As {@link prune}, relays that nothing is to be sent to and nothing was sent to for as long. Whether
   * something is to be sent is one look into the index of what is due, said by its order: of an
   * equation PostgreSQL may make a join that reads all that is open, or all that ever was.
   */
  async pruneRelays(beforeMs: number, limit: number): Promise<boolean> {
    const { rows } = await sql`
      delete from relays where url = any(array(
        select url from relays
        where owner is null
          and coalesce(last_try_at, '-infinity') < ${longAgo(beforeMs)}
          and (
            select relay from zap_receipt_deliveries
            where next_try_at is not null and relay >= relays.url
            order by relay, next_try_at limit 1
          ) is distinct from relays.url
        limit ${limit}
        for update skip locked
      ))
      returning 1
    `.execute(this.#db);
    return rows.length === limit;
  }
}

interface DeliveryRow {
  relay: string;
  state: DeliveryState;
  tries: number;
  last_word: string | null;
  last_try_at: Date | null;
  next_try_at: Date | null;
  give_up_at: Date;
  /** Null where nothing is wrong with the relay. */
  failures: number | null;
  rest_until: Date | null;
  relay_word: string | null;
}

/** The one row of a receipt that goes nowhere has no delivery. */
const hasRelay = isJoined<DeliveryRow>('relay');

function toTracedDelivery(row: DeliveryRow): TracedDelivery {
  return {
    relay: row.relay,
    state: row.state,
    tries: row.tries,
    lastWord: row.last_word,
    lastTryAtMs: row.last_try_at?.getTime() ?? null,
    nextTryAtMs: row.next_try_at?.getTime() ?? null,
    giveUpAtMs: row.give_up_at.getTime(),
    standing:
      row.failures === null
        ? null
        : {
            failures: row.failures,
            restUntilMs: row.rest_until?.getTime() ?? null,
            word: row.relay_word,
          },
  };
}
