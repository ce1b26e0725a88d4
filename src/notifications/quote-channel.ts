import { z } from 'zod';

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

/** A quote of a recipient that changed. */
export interface QuoteUpdate {
  /** Its row: `HeldQuote.id`. */
  id: number;
  /** Of its recipient, hex. */
  pubkey: string;
  quoteId: string;
}

/** A quote that was just issued. Times in milliseconds since 1970. */
export interface IssuedQuote {
  /** The row: `quotes.id`. */
  id: number;
  mintUrl: string;
  quoteId: string;
  createdAtMs: number;
  expiresAtMs: number;
}

/** Packs updates into as few payloads as PostgreSQL's bound allows. */
export function encodeUpdates(updates: readonly QuoteUpdate[]): string[] {
  return pack(updates.map(({ pubkey, quoteId, id }) => [pubkey, quoteId, id]));
}

/** Reads a payload that {@link encodeUpdates} made; anything else on the channel is no update. */
export function decodeUpdates(payload: string): QuoteUpdate[] {
  return unpack(payload, updateEntries).map(([pubkey, quoteId, id]) => ({ id, pubkey, quoteId }));
}

/** Packs issued quotes into as few payloads as PostgreSQL's bound allows. */
export function encodeIssued(quotes: readonly IssuedQuote[]): string[] {
  return pack(
    quotes.map(({ id, mintUrl, quoteId, createdAtMs, expiresAtMs }) => [
      id,
      mintUrl,
      quoteId,
      createdAtMs,
      expiresAtMs,
    ]),
  );
}

/** Reads a payload that {@link encodeIssued} made; anything else on the channel is no quote. */
export function decodeIssued(payload: string): IssuedQuote[] {
  return unpack(payload, issuedEntries).map(([id, mintUrl, quoteId, createdAtMs, expiresAtMs]) => ({
    id,
    mintUrl,
    quoteId,
    createdAtMs,
    expiresAtMs,
  }));
}

const updateEntries = z.array(z.tuple([z.string(), z.string(), z.int()]));
const issuedEntries = z.array(z.tuple([z.int(), z.string(), z.string(), z.int(), z.int()]));

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

function unpack<Entry>(payload: string, entries: z.ZodType<Entry[]>): Entry[] {
  try {
    return entries.parse(JSON.parse(payload));
  } catch {
    return [];
  }
}
