import { type Kysely, sql } from 'kysely';
import type { QuoteState } from '../domain/quote.ts';
import type { Schema } from './schema.ts';

/** How many quotes of a mint are watched in one state. */
export interface WatchedQuotes {
  mintUrl: string;
  state: QuoteState;
  count: number;
}

/** What a relay is still to be sent. */
export interface OutboxOfRelay {
  /** Normalised url. */
  relay: string;
  /** Deliveries of receipts, up to {@link MOST_DELIVERIES_COUNTED}. */
  deliveries: number;
  /** When the first of them is to be tried (milliseconds since 1970); null where there is none. */
  nextTryAtMs: number | null;
}

/** How many purchases of usernames stand how, and when the oldest open one was begun. */
export interface PurchaseBacklog {
  open: number;
  done: number;
  undone: number;
  /** Milliseconds since 1970. */
  oldestOpenAtMs: number | null;
}

/** Counting goes on no further: some milliseconds of the database, and more than this is too much anyway. */
const MOST_DELIVERIES_COUNTED = 100_000;

/** How much waits in the database to be done, for whoever watches over the service. It counts rows. */
export class BacklogStore {
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
  }

  /** The watched quotes of all mints that a process watches. */
  async watchedQuotes(processId: string): Promise<WatchedQuotes[]> {
    const { rows } = await sql<WatchedQuotes>`
      select mint_url as "mintUrl", state, count(*)::int as count from quotes
      where watch_until is not null
        and mint_url in (select mint_url from mint_leases where owner = ${processId})
      group by mint_url, state
    `.execute(this.#db);
    return rows;
  }

  /** What relays are still to be sent, whichever process sends it. */
  async outboxOf(relays: readonly string[]): Promise<OutboxOfRelay[]> {
    const { rows } = await sql<{ relay: string; deliveries: number; next: Date | null }>`
      select relay, deliveries, next
      from json_array_elements_text(${JSON.stringify(relays)}::json) as own (relay)
        cross join lateral (
          select count(*)::int as deliveries, min(next_try_at) as next from (
            select next_try_at from zap_receipt_deliveries as delivery
            where delivery.relay = own.relay and next_try_at is not null
            order by delivery.relay, next_try_at limit ${MOST_DELIVERIES_COUNTED}
          ) as open
        ) as counted
    `.execute(this.#db);
    return rows.map(({ relay, deliveries, next }) => ({
      relay,
      deliveries,
      nextTryAtMs: next?.getTime() ?? null,
    }));
  }

  /** What all relays together are still to be sent, up to {@link MOST_DELIVERIES_COUNTED}. */
  async outbox(): Promise<number> {
    const { rows } = await sql<{ count: number }>`
      select count(*)::int as count from (
        select from zap_receipt_deliveries where next_try_at is not null
        limit ${MOST_DELIVERIES_COUNTED}
      ) as open
    `.execute(this.#db);
    return rows[0]?.count ?? 0;
  }

  async purchases(): Promise<PurchaseBacklog> {
    const { rows } = await sql<{
      open: number;
      done: number;
      undone: number;
      oldest: Date | null;
    }>`
      select
        count(*) filter (where state = 'open')::int as open,
        count(*) filter (where state = 'done')::int as done,
        count(*) filter (where state = 'undone')::int as undone,
        min(created_at) filter (where state = 'open') as oldest
      from username_purchases
    `.execute(this.#db);
    const { open = 0, done = 0, undone = 0, oldest = null } = rows[0] ?? {};
    return { open, done, undone, oldestOpenAtMs: oldest?.getTime() ?? null };
  }
}
