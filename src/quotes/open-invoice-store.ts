import { type RawBuilder, sql } from 'kysely';
import type { Db } from '../database/transaction.ts';

/** Those of the prefixes of an address have the longest prefix first. */
export interface OpenInvoiceCounts {
  perRecipient: number;
  perPair: readonly number[];
  perAddress: readonly number[];
}

const HOUR_MS = 60 * 60_000;

/** As in the index `quotes_open_by_address`, in which the invoices of a prefix and an hour are a range. */
const CREATED_HOUR = sql.raw(`created_at / ${HOUR_MS}`);

/**
 * Counts the open invoices of a recipient, of the prefixes of an address, and of both together. Stops counting at the
 * limits; a limit of 0 counts nothing. Only quotes that are UNPAID or INFLIGHT and watched have address hashes.
 *
 * @param addressHashes the hashes of each prefix and of all shorter ones, the longest prefix first
 * @param limits.perPair the limit of the shortest prefix
 * @param ageLimitsMs an invoice counts for at least `min`, even if it has expired, and at most `max` (an hour)
 */
export async function countOpenInvoices(
  db: Db,
  { pubkey, addressHashes }: { pubkey: string; addressHashes: readonly string[] },
  limits: { perRecipient: number; perPair: number; perAddress: readonly number[] },
  ageLimitsMs: { min: number; max: number },
  nowMs: number,
): Promise<OpenInvoiceCounts> {
  const hasPrefix = (hashes: string) =>
    // All hashes are hex, so `g` comes after each hash with these first digits.
    sql`address_hashes >= ${hashes} and address_hashes < ${`${hashes}g`}`;
  const isOpen = (createdAt: RawBuilder<unknown>) => sql`
    ${createdAt} > ${nowMs - ageLimitsMs.max}
    and (expires_at > ${nowMs} or ${createdAt} > ${nowMs - ageLimitsMs.min})`;
  const hour = Math.floor(nowMs / HOUR_MS);
  // `+ 0`, because PostgreSQL would otherwise read the whole index by recipient while the table is almost empty, and
  // keep this plan when the table has grown.
  const countAddress = (hashes: string, i: number) => sql`
    (select count(*) from (
      select 1 from quotes
      where ${CREATED_HOUR} in (${hour - 1}, ${hour}) and ${hasPrefix(hashes)}
        and ${isOpen(sql`created_at + 0`)}
      limit ${limits.perAddress[i] ?? 0}
    ) as open) as ${sql.ref(`address${i}`)}`;
  const countPair = (hashes: string, i: number) =>
    sql`count(*) filter (where ${hasPrefix(hashes)}) as ${sql.ref(`pair${i}`)}`;
  // Ignores invoices from the future, which were stored while the clock was wrong. The pairs are counted among the
  // invoices that are read for the recipient, unless the recipient has no limit. There is no `order by`, because
  // PostgreSQL could sort all rows before it applies the limit.
  const pairCondition =
    limits.perRecipient === 0 ? sql`and ${hasPrefix(addressHashes.at(-1) ?? '')}` : sql``;
  const { rows } = await sql<Record<string, number>>`
    select recipient.*, ${sql.join(addressHashes.map(countAddress))}
    from (
      select count(*) as "perRecipient", ${sql.join(addressHashes.map(countPair))}
      from (
        select address_hashes from quotes
        where pubkey = ${pubkey} and address_hashes is not null ${pairCondition}
          and ${isOpen(sql`created_at`)} and created_at <= ${nowMs + ageLimitsMs.max}
        limit ${limits.perRecipient || limits.perPair}
      ) as open
    ) as recipient
  `.execute(db);
  const get = (name: string) => rows[0]?.[name] ?? 0;
  return {
    perRecipient: get('perRecipient'),
    perPair: addressHashes.map((_, i) => get(`pair${i}`)),
    perAddress: addressHashes.map((_, i) => get(`address${i}`)),
  };
}
