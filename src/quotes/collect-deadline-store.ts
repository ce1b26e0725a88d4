import { type RawBuilder, sql } from 'kysely';

/**
 * Builds the time until which a quote must be collected, because its mint may refuse to issue it after its expiry. Null if
 * the quote is not waiting to be collected, or if the mint is known to issue it later, too.
 */
export const COLLECT_BY: RawBuilder<number | null> = sql`
  case when state in ('INFLIGHT', 'PAID') and not exists (
    select 1 from mints where url = mint_url and issues_after_expiry = 1
  ) then expires_at end`;
