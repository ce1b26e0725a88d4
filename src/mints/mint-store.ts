import { DatabaseStore, lockRows } from '../database/sql.ts';
import type { MintInfo } from './mint-info.ts';

/** What mints reported about themselves, so that it is known after a restart even if a mint is down. */
export class MintStore extends DatabaseStore {
  /** Reads the last known info of a mint (NUT-06); null if it was never reached. */
  async recallInfo(mintUrl: string): Promise<MintInfo | null> {
    const row = await this.db
      .selectFrom('mints')
      .select('info')
      .where('url', '=', mintUrl)
      .executeTakeFirst();
    return row === undefined ? null : JSON.parse(row.info);
  }

  async rememberInfo(mintUrl: string, info: MintInfo, nowMs: number): Promise<void> {
    const values = { info: JSON.stringify(info), fetched_at: nowMs };
    await this.db
      .insertInto('mints')
      .values({ url: mintUrl, ...values })
      .onConflict((conflict) => conflict.column('url').doUpdateSet(values))
      .execute();
  }

  /** Returns the stored rate limits of a mint (see `mint/mint-rate-limiter.ts`), or null. */
  async readRateLimits(mintUrl: string): Promise<unknown> {
    const row = await this.db
      .selectFrom('mints')
      .select('rate_limits')
      .where('url', '=', mintUrl)
      .executeTakeFirst();
    return JSON.parse(row?.rate_limits ?? 'null');
  }

  /** Stores the rate limit of one route of a mint, or removes it. Does nothing if the mint has no row. */
  async writeRateLimit(mintUrl: string, route: string, limit: object | null): Promise<void> {
    await this.db.transaction().execute(async (tx) => {
      const row = await tx
        .selectFrom('mints')
        .select('rate_limits')
        .where('url', '=', mintUrl)
        .modifyEnd(lockRows(tx, 'for update'))
        .executeTakeFirst();
      const { [route]: _, ...others } = JSON.parse(row?.rate_limits ?? '{}');
      const limits = limit === null ? others : { ...others, [route]: limit };
      await tx
        .updateTable('mints')
        .set({ rate_limits: JSON.stringify(limits) })
        .where('url', '=', mintUrl)
        .execute();
    });
  }
}
