import { z } from 'zod';
import type { Logger } from '../log.ts';
import type { Store } from '../store.ts';
import { tryParseJson } from '../untrusted-text.ts';
import { BatchWriter } from './batch-writer.ts';

/** Announces to all processes that listed quotes changed. */
export const QUOTE_UPDATES_CHANNEL = 'nutpost_quote_updates';

/** Announces quotes that a process issued and does not watch itself. */
export const NEW_QUOTES_CHANNEL = 'nutpost_issued_quotes';

/** Announces that an import added quotes to watch. The payload is empty. */
export const WATCH_RESCAN_CHANNEL = 'nutpost_watch_rescan';

/** PostgreSQL's limit is 8,000. The longest entry is below 3,000. */
const MAX_PAYLOAD_BYTES = 7_900;

const quoteUpdateSchema = z.object({
  /** `quotes.id`. */
  id: z.int(),
  /** The recipient's key, hex. */
  pubkey: z.string(),
  quoteId: z.string(),
});

export type QuoteUpdate = z.infer<typeof quoteUpdateSchema>;

const quoteAnnouncementSchema = z.object({
  /** `quotes.id`. */
  id: z.int(),
  mintUrl: z.string(),
  quoteId: z.string(),
  createdAtMs: z.int(),
  expiresAtMs: z.int(),
});

/** A quote that was just created. Times in milliseconds since 1970. */
export type QuoteAnnouncement = z.infer<typeof quoteAnnouncementSchema>;

/** Packs updates into as few payloads as PostgreSQL's limit allows. */
export function encodeQuoteUpdates(updates: readonly QuoteUpdate[]): string[] {
  return packPayloads(updates.map(({ id, pubkey, quoteId }) => ({ id, pubkey, quoteId })));
}

/** Decodes a payload of {@link encodeQuoteUpdates}. Returns an empty list for anything else. */
export function decodeQuoteUpdates(payload: string): QuoteUpdate[] {
  return z.array(quoteUpdateSchema).safeParse(tryParseJson(payload)).data ?? [];
}

export function encodeQuoteAnnouncements(quotes: readonly QuoteAnnouncement[]): string[] {
  return packPayloads(quotes);
}

export function decodeQuoteAnnouncements(payload: string): QuoteAnnouncement[] {
  return z.array(quoteAnnouncementSchema).safeParse(tryParseJson(payload)).data ?? [];
}

function packPayloads(entries: readonly unknown[]): string[] {
  const payloads: string[][] = [];
  let payloadBytes = Number.POSITIVE_INFINITY;
  for (const entry of entries.map((each) => JSON.stringify(each))) {
    const entryBytes = Buffer.byteLength(entry) + 1;
    payloadBytes += entryBytes;
    if (payloadBytes > MAX_PAYLOAD_BYTES) {
      payloads.push([]);
      payloadBytes = entryBytes;
    }
    payloads.at(-1)?.push(entry);
  }
  return payloads.map((packed) => `[${packed.join(',')}]`);
}

/**
 * Announcements share a transaction, because PostgreSQL serializes the commits of transactions that
 * notify. A payer needs longer to receive and pay the invoice.
 */
const ANNOUNCEMENT_BATCH_DELAY_MS = 30;

/**
 * Announces quotes that this process issued and does not watch, so that the process that watches
 * the mint subscribes to them immediately. If an announcement is lost, that process's next rescan
 * finds the quote.
 */
export function createQuoteAnnouncer(
  store: Pick<Store, 'transaction'>,
  log: Logger,
): BatchWriter<QuoteAnnouncement> {
  return new BatchWriter({
    write: (quotes) =>
      store.transaction((tx) => tx.notify(NEW_QUOTES_CHANNEL, encodeQuoteAnnouncements(quotes))),
    onError: (error) =>
      log.warn(
        { event: 'quote_announcement_failed', err: error },
        'could not announce new quotes to other processes; their rescan will find them',
      ),
    delayMs: ANNOUNCEMENT_BATCH_DELAY_MS,
  });
}
