import { z } from 'zod';
import type { Log } from '../log.ts';
import type { Store } from '../store.ts';
import { parseJson } from '../untrusted-text.ts';
import { BatchWriter } from './batch-writer.ts';

/** The channel on which processes tell each other that listed quotes changed. */
export const QUOTE_CHANNEL = 'nutpost_quote_updates';

/** The channel on which a process tells of quotes that it issued and does not watch itself. */
export const ISSUED_CHANNEL = 'nutpost_issued_quotes';

/** The channel on which an import announces that it added quotes to watch. The payload is empty. */
export const RESCAN_CHANNEL = 'nutpost_watch_rescan';

/**
 * PostgreSQL takes payloads shorter than 8,000 bytes. One entry always fits: the longest mint url (512
 * characters) with the longest quote id, all of it escaped, is below 3,000.
 */
const MAX_PAYLOAD_BYTES = 7_900;

const quoteUpdate = z.object({
  /** Its row: `HeldQuote.id`. */
  id: z.int(),
  /** Of its recipient, hex. */
  pubkey: z.string(),
  quoteId: z.string(),
});

export type QuoteUpdate = z.infer<typeof quoteUpdate>;

const issuedQuote = z.object({
  /** The row: `quotes.id`. */
  id: z.int(),
  mintUrl: z.string(),
  quoteId: z.string(),
  createdAtMs: z.int(),
  expiresAtMs: z.int(),
});

/** A quote that was just issued. Times in milliseconds since 1970. */
export type IssuedQuote = z.infer<typeof issuedQuote>;

/** Packs updates into as few payloads as PostgreSQL's bound allows. */
export function encodeUpdates(updates: readonly QuoteUpdate[]): string[] {
  return pack(updates.map(({ id, pubkey, quoteId }) => ({ id, pubkey, quoteId })));
}

/** Reads a payload that {@link encodeUpdates} made; anything else on the channel is no update. */
export function decodeUpdates(payload: string): QuoteUpdate[] {
  return z.array(quoteUpdate).safeParse(parseJson(payload)).data ?? [];
}

/** Packs issued quotes into as few payloads as PostgreSQL's bound allows. */
export function encodeIssued(quotes: readonly IssuedQuote[]): string[] {
  return pack(quotes);
}

/** Reads a payload that {@link encodeIssued} made; anything else on the channel is no quote. */
export function decodeIssued(payload: string): IssuedQuote[] {
  return z.array(issuedQuote).safeParse(parseJson(payload)).data ?? [];
}

function pack(entries: readonly unknown[]): string[] {
  const payloads: string[] = [];
  let packed: string[] = [];
  let size = 0;
  for (const each of entries) {
    const entry = JSON.stringify(each);
    const entryBytes = Buffer.byteLength(entry) + 1;
    if (size + entryBytes > MAX_PAYLOAD_BYTES) {
      payloads.push(`[${packed.join(',')}]`);
      packed = [];
      size = 0;
    }
    packed.push(entry);
    size += entryBytes;
  }
  return packed.length === 0 ? payloads : [...payloads, `[${packed.join(',')}]`];
}

/**
 * PostgreSQL commits transactions that notify one after the other, so one of them announces the quotes of
 * this time. A payer takes longer to see the invoice.
 */
const DELAY_MS = 30;

/**
 * Announces quotes that this process issued and does not watch, so that the process that watches the mint
 * subscribes to them at once. A quote whose announcement is lost is found by that process's next rescan.
 */
export function quoteAnnouncer(
  store: Pick<Store, 'transaction'>,
  log: Log,
): BatchWriter<IssuedQuote> {
  return new BatchWriter({
    write: (quotes) => store.transaction((tx) => tx.notify(ISSUED_CHANNEL, encodeIssued(quotes))),
    delayMs: DELAY_MS,
    failureMessage: 'could not announce new quotes to other processes; their rescan will find them',
    log,
  });
}
