import { type Db, notify, transaction } from '../database/transaction.ts';
import { retryLogLevel } from '../errors.ts';
import type { Logger } from '../log.ts';
import { BatchWriter } from './batch-writer.ts';

/** Announces that quotes in recipients' lists changed. */
export const QUOTE_UPDATES_CHANNEL = 'nutpost_quote_updates';

/** Announces new quotes that the issuing process does not watch itself. */
export const NEW_QUOTES_CHANNEL = 'nutpost_new_quotes';

export interface QuoteUpdate {
  id: number;
  pubkey: string;
  quoteId: string;
  /** When the payment will be listed, and the update sent (milliseconds since 1970). Null if it is already listed. */
  listedAtMs: number | null;
}

/** A new quote, with its row id. Times in milliseconds since 1970. */
export interface QuoteAnnouncement {
  id: number;
  mintUrl: string;
  quoteId: string;
  createdAtMs: number;
  expiresAtMs: number;
}

export function decodeQuoteUpdates(payload: string): QuoteUpdate[] {
  return JSON.parse(payload);
}

export function decodeQuoteAnnouncements(payload: string): QuoteAnnouncement[] {
  return JSON.parse(payload);
}

/** PostgreSQL's limit is 8,000 bytes. The longest message has fewer than 3,000. */
const MAX_PAYLOAD_BYTES = 7_900;

/** Encodes messages as JSON arrays, each short enough for a notification. */
export function encodePayloads(messages: readonly (QuoteUpdate | QuoteAnnouncement)[]): string[] {
  const payloads: string[] = [];
  let members = '';
  for (const message of messages) {
    const json = JSON.stringify(message);
    const extended = members === '' ? json : `${members},${json}`;
    if (Buffer.byteLength(extended) <= MAX_PAYLOAD_BYTES) {
      members = extended;
    } else {
      payloads.push(`[${members}]`);
      members = json;
    }
  }
  return members === '' ? payloads : [...payloads, `[${members}]`];
}

/**
 * Creates the writer of announcements to the process that watches a quote's mint, so that it subscribes to the quote
 * immediately. If an announcement is lost, the next rescan finds the quote.
 */
export function createQuoteAnnouncer(db: Db, log: Logger): BatchWriter<QuoteAnnouncement> {
  return new BatchWriter({
    write: (quotes) =>
      transaction(db, (tx) => notify(tx, NEW_QUOTES_CHANNEL, encodePayloads(quotes))),
    onError: (error) =>
      log[retryLogLevel(error)](
        { event: 'quote_announcement_failed', err: error },
        'could not announce new quotes to other processes; their rescan will find them',
      ),
    // PostgreSQL commits transactions with notifications one by one. Shorter than a payer needs to pay the invoice.
    delayMs: 30,
  });
}
