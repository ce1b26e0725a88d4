import { type RawBuilder, sql } from 'kysely';
import type { Db } from '../database/transaction.ts';

/** Counts of prefixes are in the order of the prefixes of an address: the longest first. */
export interface OpenInvoiceCounts {
  perRecipient: number;
  /** Of the recipient, from each prefix. */
  perPair: readonly number[];
  /** Of all recipients, from each prefix. */
  perAddress: readonly number[];
}

const HOUR_MS = 60 * 60_000;

/** As in the index `quotes_open_by_address`, in which the invoices of a prefix and an hour are a range. */
const CREATED_HOUR = sql.raw(`created_at / ${HOUR_MS}`);

/**
 * Counts the open invoices of a recipient, of the prefixes of an address, and of both together. Stops counting at the
 * limits. Only quotes that are watched, and UNPAID or INFLIGHT, have address hashes.
 *
 * @param addressHashes for each prefix, its hash after those of all shorter prefixes; the longest prefix first
 * @param limits.perRecipient if 0, the invoices of the recipient from other addresses are not counted
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
  const isOpen = (createdAt: RawBuilder<unknown>) => sql`
    ${createdAt} > ${nowMs - ageLimitsMs.max}
    and (expires_at > ${nowMs} or ${createdAt} > ${nowMs - ageLimitsMs.min})`;
  const thisHour = Math.floor(nowMs / HOUR_MS);
  const countOfAddress = (hashes: string, i: number) => sql`
    (select count(*) from (
      select 1 from quotes
      where ${CREATED_HOUR} in (${thisHour - 1}, ${thisHour}) and ${startsWith(hashes)}
        -- "+ 0", or PostgreSQL plans to read the whole index by recipient while the table is small, and keeps the plan.
        and ${isOpen(sql`created_at + 0`)}
      limit ${limits.perAddress[i] ?? 0}
    ) as open) as ${sql.ref(`address${i}`)}`;
  const countOfPair = (hashes: string, i: number) =>
    sql`count(*) filter (where ${startsWith(hashes)}) as ${sql.ref(`pair${i}`)}`;
  // The pairs are counted among the invoices that are read for the recipient. If the recipient has no limit, only those
  // from the shortest prefix are read.
  const hasRecipientLimit = limits.perRecipient > 0;
  const shortestHash = addressHashes.at(-1) ?? '';
  const andFromPrefix = hasRecipientLimit ? sql`` : sql`and ${startsWith(shortestHash)}`;
  const { rows } = await sql<Record<string, number>>`
    select recipient.*, ${sql.join(addressHashes.map(countOfAddress))}
    from (
      select count(*) as "perRecipient", ${sql.join(addressHashes.map(countOfPair))}
      from (
        select address_hashes from quotes
        where pubkey = ${pubkey} and address_hashes is not null ${andFromPrefix}
          and ${isOpen(sql`created_at`)}
          -- Invoices from the future were stored while the clock was wrong.
          and created_at <= ${nowMs + ageLimitsMs.max}
        -- Without "order by", because PostgreSQL could sort all rows before it applies the limit.
        limit ${hasRecipientLimit ? limits.perRecipient : limits.perPair}
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

/** Hashes are hex, so `g` comes after each hash that starts with these digits. */
function startsWith(hashes: string): RawBuilder<boolean> {
  return sql`address_hashes >= ${hashes} and address_hashes < ${`${hashes}g`}`;
}
