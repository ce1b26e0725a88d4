import { z } from 'zod';
import { normaliseRelayUrl } from './relay-url.ts';

/** The kind of the event by which people publish which relays they use (NIP-65). */
export const RELAY_LIST_KIND = 10_002;

/** People are told to keep to two or four (NIP-65); who wants to reach them tries no more than some. */
const MAX_RELAYS = 10;

/** What somebody published of the relays that they use (NIP-65). */
export interface RelayList {
  /** Where they are found, since they write there: normalised, distinct, in their order. */
  relays: string[];
  /** Unix seconds, by their own clock. */
  createdAt: number;
  /** Of the event, hex. */
  id: string;
}

/** A signature is good for anything that is JSON: what is signed may still be no event (NIP-01). */
const EVENT = z.object({
  kind: z.literal(RELAY_LIST_KIND),
  id: z.string(),
  created_at: z.int(),
  tags: z.array(z.array(z.string())),
});

/**
 * Reads a published list. What in it is no relay is passed over, and so is a relay where they only read.
 *
 * @param event its signature is checked
 * @param options see {@link normaliseRelayUrl}
 * @returns null where the event is no such list
 */
export function readRelayList(
  event: unknown,
  options: { allowPrivate: boolean },
): RelayList | null {
  const { data } = EVENT.safeParse(event);
  return data === undefined
    ? null
    : { relays: writtenRelays(data.tags, options), createdAt: data.created_at, id: data.id };
}

function writtenRelays(tags: string[][], options: { allowPrivate: boolean }): string[] {
  const relays = new Set<string>();
  for (const [name, url = '', marker = ''] of tags) {
    if (relays.size === MAX_RELAYS) {
      break;
    }
    const isWritten = name === 'r' && (marker === '' || marker === 'write');
    const relay = isWritten ? normaliseRelayUrl(url, options) : null;
    if (relay !== null) {
      relays.add(relay);
    }
  }
  return [...relays];
}

/** The one that counts of two lists of one person; of two of the same second, the lower id (NIP-01). */
export function newerList(one: RelayList, other: RelayList): RelayList {
  if (one.createdAt !== other.createdAt) {
    return one.createdAt > other.createdAt ? one : other;
  }
  return one.id <= other.id ? one : other;
}
