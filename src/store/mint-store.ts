import { type Kysely, sql } from 'kysely';
import type { MintInfo, StoredMintInfo } from '../domain/mint-info.ts';
import type { Schema } from './schema.ts';

/** What mints said of themselves, kept so that a restart beside a dead mint still knows it. */
export class MintStore {
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
  }

  /** The last known abilities of a mint (NUT-06), or null where it was never reached. */
  async recallInfo(mintUrl: string): Promise<StoredMintInfo | null> {
    const row = await this.#db
      .selectFrom('mints')
      .select('info')
      .where('url', '=', mintUrl)
      .executeTakeFirst();
    return row?.info ?? null;
  }

  async rememberInfo(mintUrl: string, info: MintInfo, nowMs: number): Promise<void> {
    const values = { info: JSON.stringify(info), fetched_at: new Date(nowMs) };
    await this.#db
      .insertInto('mints')
      .values({ url: mintUrl, ...values })
      .onConflict((conflict) => conflict.column('url').doUpdateSet(values))
      .execute();
  }

  /** What a process learnt of a mint's limits, as {@link rememberLimits} was given it; else null. */
  async recallLimits(mintUrl: string): Promise<unknown> {
    const row = await this.#db
      .selectFrom('mints')
      .select('learnt_limits')
      .where('url', '=', mintUrl)
      .executeTakeFirst();
    return row?.learnt_limits ?? null;
  }

  /**
   * Keeps what was learnt of a known mint's limits; of an unknown one nothing is kept.
   *
   * @param limits by route: what is known of another route stays
   */
  async rememberLimits(mintUrl: string, limits: object): Promise<void> {
    await this.#db
      .updateTable('mints')
      .set({
        learnt_limits: sql`coalesce(learnt_limits, '{}') || ${JSON.stringify(limits)}::jsonb`,
      })
      .where('url', '=', mintUrl)
      .execute();
  }
}
