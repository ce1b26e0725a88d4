import { BaseStore, lockRows } from '../database/sql.ts';
import type { MintInfo } from './mint-info.ts';

/** Stores the last known info and rate limits of mints for other processes, and for use after a restart. */
export class MintStore extends BaseStore {
  /** Returns the last known info of a mint (NUT-06); null if the mint has no row. */
  async loadInfo(mintUrl: string): Promise<MintInfo | null> {
    const row = await this.#load(mintUrl);
    return row === undefined ? null : JSON.parse(row.info);
  }

  async saveInfo(mintUrl: string, info: MintInfo, nowMs: number): Promise<void> {
    const values = { info: JSON.stringify(info), fetched_at: nowMs };
    await this.db
      .insertInto('mints')
      .values({ url: mintUrl, ...values })
      .onConflict((conflict) => conflict.column('url').doUpdateSet(values))
      .execute();
  }

  /** Returns the stored limits, which `parseLearnedLimits` validates; null if there are none. */
  async loadRateLimits(mintUrl: string): Promise<unknown> {
    const row = await this.#load(mintUrl);
    return JSON.parse(row?.rate_limits ?? 'null');
  }

  /** Stores the limit of one route; null removes it. Has no effect if the mint has no row. */
  async saveRateLimit(mintUrl: string, route: string, limit: object | null): Promise<void> {
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

  async #load(mintUrl: string) {
    return await this.db
      .selectFrom('mints')
      .select(['info', 'rate_limits'])
      .where('url', '=', mintUrl)
      .executeTakeFirst();
  }
}
