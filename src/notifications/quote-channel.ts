import { z } from 'zod';

/** The channel on which processes tell each other that listed quotes changed. */
export const QUOTE_CHANNEL = 'nutpost_quote_updates';

/** PostgreSQL takes payloads shorter than 8,000 bytes. */
const MAX_PAYLOAD_BYTES = 7_900;

/** A quote of a recipient that changed. */
export interface QuoteUpdate {
  /** Hex. */
  pubkey: string;
  quoteId: string;
}

/** Packs updates into as few payloads as PostgreSQL's bound allows. */
export function encodeUpdates(updates: readonly QuoteUpdate[]): string[] {
  const payloads: string[] = [];
  let entries: string[] = [];
  let size = 0;
  for (const update of updates) {
    const entry = JSON.stringify([update.pubkey, update.quoteId]);
    const entryBytes = Buffer.byteLength(entry) + 1;
    if (size + entryBytes > MAX_PAYLOAD_BYTES) {
      payloads.push(`[${entries.join(',')}]`);
      entries = [];
      size = 0;
    }
    entries.push(entry);
    size += entryBytes;
  }
  return entries.length === 0 ? payloads : [...payloads, `[${entries.join(',')}]`];
}

/** Reads a payload that {@link encodeUpdates} made; anything else on the channel is no update. */
export function decodeUpdates(payload: string): QuoteUpdate[] {
  try {
    return entryList.parse(JSON.parse(payload)).map(([pubkey, quoteId]) => ({ pubkey, quoteId }));
  } catch {
    return [];
  }
}

const entryList = z.array(z.tuple([z.string(), z.string()]));
