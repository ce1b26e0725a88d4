import { type Kysely, sql } from 'kysely';
import type { MintInfo } from '../domain/mint-info.ts';
import type { Schema } from './schema.ts';

/** What mints said of themselves, kept so that a restart beside a dead mint still knows it. */
export class MintStore {
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
  }

  /** The last known abilities of a mint (NUT-06), or null where it was never reached. */
  async recallInfo(mintUrl: string): Promise<MintInfo | null> {
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

  /** Returns the stored rate limits of a mint (see `mint/mint-rate-limiter.ts`), or null. */
  async readRateLimits(mintUrl: string): Promise<unknown> {
    const row = await this.#db
      .selectFrom('mints')
      .select('rate_limits')
      .where('url', '=', mintUrl)
      .executeTakeFirst();
    return row?.rate_limits ?? null;
  }

  /** Stores the rate limit of one route of a mint, or removes it. Does nothing if the mint has no row. */
  async writeRateLimit(mintUrl: string, route: string, limit: object | null): Promise<void> {
    const change = JSON.stringify({ [route]: limit });
    await sql`
      update mints set
        rate_limits = jsonb_strip_nulls(coalesce(rate_limits, '{}') || ${change}::jsonb)
      where url = ${mintUrl}
    `.execute(this.#db);
  }
}
