import { type Kysely, sql } from 'kysely';
import type { Schema } from '../database/schema.ts';

/** Since when a recipient gets no new invoices, and why. */
export interface RecipientBlock {
  /** Milliseconds since 1970. */
  sinceMs: number;
  /** In the operator's words; null where none were given. */
  reason: string | null;
}

/** Recipients whom the operator has blocked. */
export class BlockStore {
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
  }

  /** The block of a key (hex); null where it has none. */
  async find(pubkey: string): Promise<RecipientBlock | null> {
    const row = await this.#db
      .selectFrom('recipient_blocks')
      .select(['created_at', 'reason'])
      .where('pubkey', '=', pubkey)
      .executeTakeFirst();
    return row === undefined ? null : toBlock(row);
  }

  /**
   * Blocks a key. One that is blocked stays so since then, with the new reason where there is one.
   *
   * @returns the block as it is now
   */
  async add(pubkey: string, reason: string | null, nowMs: number): Promise<RecipientBlock> {
    const row = await this.#db
      .insertInto('recipient_blocks')
      .values({ pubkey, created_at: nowMs, reason })
      .onConflict((conflict) =>
        conflict
          .column('pubkey')
          .doUpdateSet({ reason: sql`coalesce(excluded.reason, recipient_blocks.reason)` }),
      )
      .returning(['created_at', 'reason'])
      .executeTakeFirstOrThrow();
    return toBlock(row);
  }

  /** Ends the block of a key, and answers it; null where there was none. */
  async remove(pubkey: string): Promise<RecipientBlock | null> {
    const row = await this.#db
      .deleteFrom('recipient_blocks')
      .where('pubkey', '=', pubkey)
      .returning(['created_at', 'reason'])
      .executeTakeFirst();
    return row === undefined ? null : toBlock(row);
  }
}

function toBlock(row: { created_at: number; reason: string | null }): RecipientBlock {
  return { sinceMs: row.created_at, reason: row.reason };
}
