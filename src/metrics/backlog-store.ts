import { sql } from 'kysely';
import { DatabaseStore } from '../database/sql.ts';
import type { QuoteState } from '../database/schema.ts';

/** How many quotes of a mint are watched in one state. */
export interface WatchedQuotes {
  mintUrl: string;
  state: QuoteState;
  count: number;
}

/** Receipts that a relay has not been sent yet. */
export interface OutboxOfRelay {
  /** Normalised URL. */
  relay: string;
  deliveries: number;
  /** When the first of them is due (milliseconds since 1970). */
  nextTryAtMs: number;
}

/** Purchases of usernames by state, and when the oldest open one began. */
export interface PurchaseBacklog {
  open: number;
  done: number;
  undone: number;
  /** Milliseconds since 1970. */
  oldestOpenAtMs: number | null;
}

/** Counts what waits in the database, for the metrics. */
export class BacklogStore extends DatabaseStore {
  /** The watched quotes of all mints that a process watches. */
  async watchedQuotes(processId: string): Promise<WatchedQuotes[]> {
    const { rows } = await sql<WatchedQuotes>`
      select mint_url as "mintUrl", state, count(*) as count from quotes
      where watch_until is not null
        and mint_url in (select mint_url from mint_leases where owner = ${processId})
      group by mint_url, state
    `.execute(this.db);
    return rows;
  }

  /** What each relay has not been sent yet, by any process. */
  async outbox(): Promise<OutboxOfRelay[]> {
    return await this.db
      .selectFrom('zap_receipt_deliveries')
      .select(({ fn }) => [
        'relay',
        fn.countAll<number>().as('deliveries'),
        fn.min<number>('next_try_at').as('nextTryAtMs'),
      ])
      .where('next_try_at', 'is not', null)
      .groupBy('relay')
      .execute();
  }

  async purchases(): Promise<PurchaseBacklog> {
    const { rows } = await sql<PurchaseBacklog>`
      select
        count(*) filter (where state = 'open') as open,
        count(*) filter (where state = 'done') as done,
        count(*) filter (where state = 'undone') as undone,
        min(created_at) filter (where state = 'open') as "oldestOpenAtMs"
      from username_purchases
    `.execute(this.db);
    return rows[0] ?? { open: 0, done: 0, undone: 0, oldestOpenAtMs: null };
  }
}
